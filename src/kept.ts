/** A Map that keeps what was used last, up to a limit. */
export interface Kept<T> {
  get(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): boolean;
}

export function createKept<T>(limit: number): Kept<T> {
  const values = new Map<string, T>();
  return {
    get(key) {
      const value = values.get(key);
      // A Map remembers the order in which its keys came: the first is the one that was not used for the longest time.
      if (value !== undefined && values.delete(key)) values.set(key, value);
      return value;
    },
    set(key, value) {
      values.delete(key);
      values.set(key, value);
      const [oldest] = values.keys();
      if (values.size > limit && oldest !== undefined) values.delete(oldest);
    },
    delete: (key) => values.delete(key),
  };
}
