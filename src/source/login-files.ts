/** Passes a login to one git process, through its environment and files that only this user can read. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getCACertificates } from "node:tls";
import type { Remote } from "./remote.ts";

export interface LoginSetup {
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, string>>;
}

/** Writes the necessary files into `directory`, which the caller creates (0700) and removes. */
export async function writeLogin(remote: Remote, directory: string): Promise<LoginSetup> {
  return remote.protocol === "ssh:" ? sshSetup(remote, directory) : httpSetup(remote, directory);
}

/** Whether the login needs files at all. */
export function needsFiles({ protocol, login }: Remote): boolean {
  return protocol === "ssh:" || login?.ca !== undefined;
}

async function httpSetup({ address, login }: Remote, directory: string): Promise<LoginSetup> {
  if (login === undefined) return { env: {}, config: {} };
  const basic = Buffer.from(`${login.username}:${login.password ?? ""}`).toString("base64");
  const config = { [`http.${new URL(address).origin}/.extraHeader`]: `Authorization: Basic ${basic}` };
  if (login.ca === undefined) return { env: {}, config };
  const file = join(directory, "ca.pem");
  // GIT_SSL_CAINFO replaces the authorities that git trusts, but the login's CA should be added to them.
  await writePrivate(file, [...getCACertificates("default"), ...getCACertificates("system"), login.ca].join("\n"));
  return { env: { GIT_SSL_CAINFO: file }, config };
}

async function sshSetup({ login }: Remote, directory: string): Promise<LoginSetup> {
  const identity = join(directory, "identity");
  const knownHosts = join(directory, "known_hosts");
  await writePrivate(knownHosts, endWithNewline(login?.knownHosts ?? ""));
  if (login?.identity !== undefined) await writePrivate(identity, endWithNewline(login.identity));
  const options = {
    IdentityFile: login?.identity === undefined ? "none" : quoteForSsh(identity),
    IdentitiesOnly: "yes",
    IdentityAgent: "none",
    UserKnownHostsFile: quoteForSsh(knownHosts),
    StrictHostKeyChecking: "yes",
    BatchMode: "yes",
    ConnectTimeout: "20",
    ServerAliveInterval: "15",
    ServerAliveCountMax: "4",
  };
  // `-F none`: ssh reads the user's configuration from the account's home, whatever HOME says.
  const words = ["ssh", "-F", "none", ...Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`])];
  return { env: { GIT_SSH_COMMAND: words.map(quoteForShell).join(" ") }, config: {} };
}

async function writePrivate(file: string, text: string): Promise<void> {
  await writeFile(file, text, { mode: 0o600, flag: "wx" });
}

// OpenSSH rejects a key without a newline at the end.
function endWithNewline(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function quoteForSsh(path: string): string {
  return `"${path}"`;
}

function quoteForShell(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
