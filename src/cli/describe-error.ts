/** Turns an error into a message for the user of a command, with advice. */
import { ApiError } from "../errors.ts";

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.replace(/\.$/, "");
  if (error instanceof ApiError && error.status === 0) {
    return `cannot reach the cluster: ${message}. Check that it runs, or choose another one with --kubeconfig or --context`;
  }
  if (error instanceof ApiError && error.status === 401) {
    return `the cluster rejected the credentials: ${message}. Log in again, or choose others with --kubeconfig or --context`;
  }
  const { code, path } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : fileProblems[code];
  return known === undefined || path === undefined ? error.message : `cannot use ${path}: ${known}`;
}

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  EACCES: "permission denied",
  EISDIR: "it is a directory",
  ENOTDIR: "part of its path is not a directory",
};
