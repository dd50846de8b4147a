/** Wraps the methods of a port: the one form of decorators. */

/** For each wrapped method, a function that gets the method itself and the arguments of the call. */
export type Interceptor<Port> = {
  readonly [Method in keyof Port]?: NonNullable<Port[Method]> extends (...args: infer Args) => infer Result
    ? (next: (...args: Args) => Result, ...args: Args) => Result
    : never;
};

/**
 * Returns a port whose calls pass through the interceptor. What it does not name is the port's own, including what the
 * port (`Whole`) has beyond its interface.
 */
export function around<Port extends object, Whole extends Port = Port>(
  port: Whole,
  interceptor: Interceptor<NoInfer<Port>>,
): Whole {
  const wrapped = Object.defineProperties({}, Object.getOwnPropertyDescriptors(port)) as Whole;
  for (const method of Object.keys(interceptor) as (keyof Port)[]) {
    const intercept = interceptor[method] as ((...args: unknown[]) => unknown) | undefined;
    // Optional methods that the port does not have stay absent.
    if (intercept === undefined || port[method] === undefined) continue;
    const next = (...args: unknown[]) => (port[method] as (...args: unknown[]) => unknown)(...args);
    Object.assign(wrapped, { [method]: (...args: unknown[]) => intercept(next, ...args) });
  }
  return wrapped;
}

/** The names of the methods that return promises. */
type Asynchronous<Port> = {
  [Method in keyof Port]-?: NonNullable<Port[Method]> extends (...args: never[]) => Promise<unknown> ? Method : never;
}[keyof Port];

/** Wraps these methods, all in the same way. */
export function aroundEach<Port extends object, Method extends Asynchronous<Port> & string>(
  port: Port,
  methods: readonly Method[],
  intercept: <Result>(next: () => Promise<Result>, method: Method, args: readonly unknown[]) => Promise<Result>,
): Port {
  const each = methods.map((method) => [
    method,
    (next: (...args: unknown[]) => Promise<unknown>, ...args: unknown[]) =>
      intercept(() => next(...args), method, args),
  ]);
  return around(port, Object.fromEntries(each) as Interceptor<Port>);
}
