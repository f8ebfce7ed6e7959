/** Whether the long form of tests is wanted, `npm run test:long`: larger input and more random cases than `npm test` has time for. */
export const LONG: boolean = process.env['HEADRACE_TEST_LONG'] === '1';
