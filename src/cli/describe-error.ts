/** What went wrong, for whoever has typed the command: in plain words, with what to do. */
import { ApiError } from "../errors.ts";

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.replace(/\.$/, "");
  if (error instanceof ApiError && error.status === 0) {
    return `the cluster cannot be reached: ${message}. Does it run, and is it the one that is meant? --kubeconfig and --context name another`;
  }
  if (error instanceof ApiError && error.status === 401) {
    return `the cluster does not accept this login: ${message}. Log in anew, or name another with --kubeconfig or --context`;
  }
  const { code, path } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : fileProblems[code];
  return known === undefined || path === undefined ? error.message : `${path} cannot be used: ${known}`;
}

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or directory",
  EACCES: "you have no right to it",
  EISDIR: "it is a directory",
  ENOTDIR: "a part of its path is no directory",
};
