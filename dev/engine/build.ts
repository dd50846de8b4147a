/** Builds the Dockerfile unchanged. */
import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { startProcess } from "../parts/process.ts";
import { type Architecture, ownArchitecture, packRelease, toBuildArgs } from "../image/release.ts";
import { findForeignTool, findTools, type ToolPaths } from "../tools.ts";
import type { Engine } from "./daemon.ts";

const root = join(import.meta.dirname, "../..");

export interface BuildOptions {
  readonly engine: Engine;
  readonly tools: ToolPaths<"docker-buildx">;
  readonly tag: string;
  readonly architecture: Architecture;
  /** Replaces the base image of the Dockerfile. */
  readonly base?: string | undefined;
  readonly say: (line: string) => void;
}

/**
 * Builds the image. With the checksum of kluctl's release in the environment (`KLUCTL_SHA256_AMD64` or `_ARM64`) it
 * contains the release; otherwise this machine's own kluctl, which is offered to the build in the form of a release.
 */
export async function buildImage({ engine, tools, tag, architecture, base, say }: BuildOptions): Promise<void> {
  const variables = [`KLUCTL_SHA256_${architecture.toUpperCase()}`].filter((name) => process.env[name]);
  const dir = await mkdtemp(join(tmpdir(), "towline-release-"));
  const releases = variables.length > 0 ? undefined : await lendRelease(dir, architecture, say);
  const args: Record<string, string> = {
    ...Object.fromEntries(variables.map((name) => [name, process.env[name]!])),
    ...releases?.args,
    VERSION: "0.0.0-test",
    ...(base !== undefined && { NODE_IMAGE: base }),
  };
  const started = Date.now();
  say("building the image …");
  try {
    const build = await startProcess({
      name: "docker-buildx",
      command: tools["docker-buildx"],
      args: [
        ...["build", "--builder=default", "--load", "--network=host", "--progress=plain", "--tag", tag],
        ...["--platform", `linux/${architecture}`],
        ...Object.entries(args).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]),
        root,
      ],
      env: engine.env,
    });
    const { ok, reason } = await build.exited;
    if (!ok) throw new Error(`The image could not be built (${reason}); the output is above.`);
  } finally {
    await releases?.stop();
    await rm(dir, { recursive: true, force: true });
  }
  say(`built ${tag} for ${architecture} (${Math.round((Date.now() - started) / 1000)} s)`);
}

async function lendRelease(dir: string, architecture: Architecture, say: BuildOptions["say"]) {
  const kluctl =
    architecture === ownArchitecture
      ? (await findTools(["kluctl"], { say })).kluctl
      : await findForeignTool("kluctl", architecture, { say });
  const release = await packRelease(kluctl, dir, architecture);
  say(
    `KLUCTL_SHA256_${architecture.toUpperCase()} is not set: the image contains a locally built kluctl ${release.version}`,
  );
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
