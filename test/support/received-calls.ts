import type { Test } from 'tap';

/** Notes the receivers of the calls of a method until the test has ended. The function that it returns gives those since its last call. */
export function receivedCalls<Owner extends object>(
  t: Pick<Test, 'teardown'>,
  owner: Owner,
  name: keyof Owner & string,
): () => readonly unknown[] {
  const method = Reflect.get(owner, name) as (...args: unknown[]) => unknown;
  let receivers: unknown[] = [];
  Reflect.set(owner, name, function (this: unknown, ...args: unknown[]): unknown {
    receivers.push(this);
    return Reflect.apply(method, this, args);
  });
  t.teardown(() => Reflect.set(owner, name, method));
  return (): readonly unknown[] => {
    const taken = receivers;
    receivers = [];
    return taken;
  };
}
