/** Builds the Dockerfile as it is. */
import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { startProcess } from "../parts/process.ts";
import { packRelease, toBuildArgs } from "../image/release.ts";
import { findTools, type ToolPaths } from "../tools.ts";
import type { Engine } from "./daemon.ts";

const root = join(import.meta.dirname, "../..");

export interface BuildOptions {
  readonly engine: Engine;
  readonly tools: ToolPaths<"docker-buildx">;
  readonly tag: string;
  readonly say: (line: string) => void;
}

/**
 * With the checksum of kluctl's release in the environment (`KLUCTL_SHA256_AMD64` or `_ARM64`), the image has the release;
 * without, this machine's own kluctl, lent to the build as a release would be.
 */
export async function buildImage({ engine, tools, tag, say }: BuildOptions): Promise<void> {
  const variables = ["KLUCTL_SHA256_AMD64", "KLUCTL_SHA256_ARM64"].filter((name) => process.env[name]);
  const dir = await mkdtemp(join(tmpdir(), "towline-release-"));
  const releases = variables.length > 0 ? undefined : await lendRelease(dir, say);
  const args: Record<string, string> = {
    ...Object.fromEntries(variables.map((name) => [name, process.env[name]!])),
    ...releases?.args,
    VERSION: "0.0.0-test",
  };
  const started = Date.now();
  say("building the image …");
  try {
    const build = await startProcess({
      name: "docker-buildx",
      command: tools["docker-buildx"],
      args: [
        ...["build", "--builder=default", "--load", "--network=host", "--progress=plain", "--tag", tag],
        ...Object.entries(args).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]),
        root,
      ],
      env: engine.env,
    });
    const { ok, reason } = await build.exited;
    if (!ok) throw new Error(`The image could not be built (${reason}): see above.`);
  } finally {
    await releases?.stop();
    await rm(dir, { recursive: true, force: true });
  }
  say(`built ${tag} (${Math.round((Date.now() - started) / 1000)} s)`);
}

async function lendRelease(dir: string, say: BuildOptions["say"]) {
  const { kluctl } = await findTools(["kluctl"], { say });
  const release = await packRelease(kluctl, dir);
  say(`KLUCTL_SHA256_AMD64 is not set: the image gets this machine's kluctl ${release.version}`);
  const server = createServer((req, res) => {
    if (basename(req.url ?? "") !== release.archive) return void res.writeHead(404).end();
    return void createReadStream(join(dir, release.archive)).pipe(res);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    args: { ...toBuildArgs(release), KLUCTL_RELEASES: `http://127.0.0.1:${port}` },
    async stop() {
      server.close();
      await once(server, "close");
    },
  };
}
