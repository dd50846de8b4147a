/** A Map with a size limit that removes the least recently used entry. */
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
      // A Map keeps insertion order, so the first key is the least recently used one.
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
