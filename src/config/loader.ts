/** Loads the configuration again only if one of the files that it was read from has changed. */

export type ReadFile = (path: string) => string;

/**
 * Calls `load` with a function that reads files, and again once one of those files has another content, appears or
 * disappears. Otherwise returns the same object, without parsing anything. An error is not remembered.
 */
export function createLoader<T>(load: (readFile: ReadFile) => T, readFile: ReadFile): () => T {
  let last: { readonly loaded: T; readonly read: ReadonlyMap<string, string | undefined> } | undefined;

  function contentOf(path: string): string | undefined {
    try {
      return readFile(path);
    } catch {
      return undefined; // `load` meets the same error and reports it
    }
  }

  return () => {
    if (last && [...last.read].every(([path, content]) => contentOf(path) === content)) return last.loaded;
    const read = new Map<string, string | undefined>();
    const loaded = load((path) => {
      read.set(path, undefined);
      const content = readFile(path);
      read.set(path, content);
      return content;
    });
    last = { loaded, read };
    return loaded;
  };
}
