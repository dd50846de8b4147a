/** A git host over SSH: a real server for the real `ssh`, backed by real git. */
import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import type { AddressInfo } from "node:net";
import ssh from "ssh2";
import { onTestFinished } from "vitest";
import { findTools } from "../../dev/tools.ts";

export interface SshHost {
  readonly port: number;
  /** A line for known_hosts. */
  readonly knownHosts: string;
  /** The accepted private key, as users store it in a Secret. */
  readonly identity: string;
}

/** Serves the repositories below `root` to the user `git` with this key. */
export async function useSshHost(root: string): Promise<SshHost> {
  await findTools(["ssh"], { say: (line) => console.error(line) });
  const hostKey = generateKeys();
  const userKey = generateKeys();
  const allowed = parse(userKey.public).getPublicSSH();
  const server = new ssh.Server({ hostKeys: [hostKey.private] }, (client) => {
    client.on("error", () => undefined); // a client that was rejected closes the connection
    client.on("authentication", (ctx) => {
      const known = ctx.method === "publickey" && ctx.username === "git" && ctx.key.data.equals(allowed);
      if (!known) return ctx.reject(["publickey"]);
      if (ctx.signature && ctx.blob && parse(userKey.public).verify(ctx.blob, ctx.signature, ctx.hashAlgo) !== true) {
        return ctx.reject();
      }
      ctx.accept();
    });
    client.on("session", (accept) => {
      accept().on("exec", (acceptExec, reject, { command }) => {
        const path = /^git-upload-pack '(\/[\w./-]+)'$/.exec(command)?.[1];
        if (path === undefined || path.includes("..")) return reject();
        const stream = acceptExec();
        const child = spawn("git", ["upload-pack", `${root}${path}`], { stdio: "pipe" });
        stream.pipe(child.stdin);
        child.stdout.pipe(stream, { end: false });
        child.stderr.pipe(stream.stderr, { end: false });
        child.stdin.on("error", () => undefined);
        child.once("close", (code) => {
          stream.exit(code ?? 1);
          stream.end();
        });
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { port, knownHosts: `[127.0.0.1]:${port} ${hostKey.public}`, identity: userKey.private };
}

/** A private key that the host does not accept. */
export function aStrangersKey(): string {
  return generateKeyPairSync("rsa", { modulusLength: 2048 })
    .privateKey.export({ type: "pkcs1", format: "pem" })
    .toString();
}

/**
 * ssh2 strips leading zero bytes from the public key that it writes, and then rejects the result as malformed: about
 * one key in 256 (14 of 4,000 counted).
 */
function generateKeys(): ReturnType<typeof ssh.utils.generateKeyPairSync> {
  for (;;) {
    const keys = ssh.utils.generateKeyPairSync("ed25519");
    if (!(ssh.utils.parseKey(keys.public) instanceof Error)) return keys;
  }
}

function parse(key: string): ssh.ParsedKey {
  const parsed = ssh.utils.parseKey(key);
  if (parsed instanceof Error) throw parsed;
  return parsed;
}
