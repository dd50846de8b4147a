/** Reads the configuration file. */
import { parseDocument } from "yaml";
import { ConfigError } from "../errors.ts";

/** Throws a ConfigError without yaml's own messages, because they quote the file, which may contain secrets. */
export function readConfigFile(path: string, readFile: (path: string) => string): unknown {
  let text: string;
  try {
    text = readFile(path);
  } catch (error) {
    throw new ConfigError(`cannot read the configuration file ${path}: ${explainUnreadable(error)}`);
  }
  const document = parseDocument(text, { prettyErrors: true, logLevel: "error" });
  const problems = document.errors.map(
    ({ code, linePos }) => `  line ${linePos?.[0].line ?? "?"}, column ${linePos?.[0].col ?? "?"}  ${explain(code)}`,
  );
  if (problems.length === 0) {
    try {
      return document.toJS({ maxAliasCount: 100 }) as unknown;
    } catch {
      problems.push("  an alias (*name) has no anchor, or expands to too much: put values that begin with * in quotes");
    }
  }
  throw new ConfigError([`the configuration file ${path} is not valid YAML`, ...problems].join("\n"));
}

/** Describes why a file cannot be read. */
export function explainUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const whys: Readonly<Record<string, string>> = {
    ENOENT: "no such file",
    EACCES: "permission denied",
    EISDIR: "it is a directory",
  };
  return whys[code ?? ""] ?? code ?? message;
}

function explain(code: string): string {
  const hints: Readonly<Record<string, string>> = {
    BAD_INDENT: "invalid indentation",
    DUPLICATE_KEY: "duplicate key",
    TAB_AS_INDENT: "indent with spaces, not with tabs",
    BAD_ALIAS: "put values that begin with * in quotes",
    MULTIPLE_DOCS: "more than one document",
    MISSING_CHAR: "a quote, a bracket or a colon is missing",
  };
  return hints[code] ?? `invalid syntax (${code}); put values with special characters in quotes`;
}
