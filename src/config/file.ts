/** Reads the configuration file. */
import { parseDocument } from "yaml";
import { ConfigError } from "../errors.ts";

/** Throws a ConfigError. yaml's own messages are not passed on: they quote the file, which may hold secrets. */
export function readConfigFile(path: string, readFile: (path: string) => string): unknown {
  let text: string;
  try {
    text = readFile(path);
  } catch (error) {
    throw new ConfigError(`the configuration file ${path} cannot be read: ${explainUnreadable(error)}`);
  }
  const document = parseDocument(text, { prettyErrors: true, logLevel: "error" });
  const problems = document.errors.map(
    ({ code, linePos }) => `  line ${linePos?.[0].line ?? "?"}, column ${linePos?.[0].col ?? "?"}  ${explain(code)}`,
  );
  if (problems.length === 0) {
    try {
      return document.toJS({ maxAliasCount: 100 }) as unknown;
    } catch {
      problems.push("  an alias (*name) refers to nothing, or to too much: put values that begin with * in quotes");
    }
  }
  throw new ConfigError([`the configuration file ${path} is not valid YAML`, ...problems].join("\n"));
}

/** Why a file that the configuration names cannot be read. */
export function explainUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const whys: Readonly<Record<string, string>> = {
    ENOENT: "there is no such file",
    EACCES: "the server may not read it",
    EISDIR: "it is a directory",
  };
  return whys[code ?? ""] ?? code ?? message;
}

function explain(code: string): string {
  const hints: Readonly<Record<string, string>> = {
    BAD_INDENT: "the indentation is wrong",
    DUPLICATE_KEY: "this key is already there",
    TAB_AS_INDENT: "indent with spaces, not with tabs",
    BAD_ALIAS: "put values that begin with * in quotes",
    MULTIPLE_DOCS: "there is more than one document",
    MISSING_CHAR: "a quote, a bracket or a colon is missing",
  };
  return hints[code] ?? `is not understood (${code}); put values with special characters in quotes`;
}
