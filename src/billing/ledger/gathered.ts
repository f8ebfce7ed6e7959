// Questions to the store that are gathered while earlier ones are under way, and asked together. Thousands of accounts whose requests
// wait for credit ask several times a second, and must not keep others from the connections.

export class Gathered<Answer> {
  readonly #most: number;
  readonly #ask: (questions: readonly string[]) => Promise<ReadonlyMap<string, Answer>>;
  #waiting = new Map<string, PromiseWithResolvers<Answer | undefined>>();
  #running = 0;

  /** `most`: calls of `ask` at the same time. */
  constructor(most: number, ask: (questions: readonly string[]) => Promise<ReadonlyMap<string, Answer>>) {
    this.#most = most;
    this.#ask = ask;
  }

  /** The answer of a call that begins after this one. */
  async ask(question: string): Promise<Answer | undefined> {
    let waiting = this.#waiting.get(question);
    if (waiting === undefined) this.#waiting.set(question, (waiting = Promise.withResolvers()));
    if (this.#running < this.#most) void this.#run();
    return await waiting.promise;
  }

  async #run(): Promise<void> {
    this.#running++;
    while (this.#waiting.size > 0) {
      const batch = this.#waiting;
      this.#waiting = new Map();
      try {
        const answers = await this.#ask([...batch.keys()]);
        for (const [question, { resolve }] of batch) resolve(answers.get(question));
      } catch (error) {
        for (const { reject } of batch.values()) reject(error);
      }
    }
    this.#running--;
  }
}
