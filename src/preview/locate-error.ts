/** Finds the line of the repository that a template error is about. */
import { posix } from "node:path";
import type { Preview } from "../model/report.ts";

/** The files of the merge. */
type LineAt = (path: string, line: number) => Promise<string | undefined>;

/** A frame of Jinja's traceback: the file, relative to the project, and the line with its text. */
const frame = /\bFile "([^"\n]+)", line (\d{1,7})\b[^\n]*\n[ \t]*(\S[^\n]*)/g;

/**
 * Returns the position of the last frame. kluctl also names files that are not the repository's, such as those of
 * included projects: the position counts only if the file has the line that the error quotes.
 */
export async function locateError(message: string, projectPath: string, lineAt: LineAt): Promise<Preview["at"]> {
  const [, file = "", number = "", quoted = ""] = [...message.matchAll(frame)].at(-1) ?? [];
  const path = posix.join(projectPath, file);
  const isBelow = file !== "" && !posix.isAbsolute(file) && !path.startsWith("..") && !posix.isAbsolute(path);
  if (!isBelow) return undefined;
  const line = Number(number);
  return (await lineAt(path, line))?.trim() === quoted.trim() ? { path, line } : undefined;
}
