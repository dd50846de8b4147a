/** A registry for this run: images pulled from a registry can have one variant per architecture under one name. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../parts/port.ts";
import { startProcess } from "../parts/process.ts";
import { installPackage } from "../tools.ts";

const run = promisify(execFile);

export interface Registry {
  /** The host part of image names. */
  readonly host: string;
  stop(): Promise<void>;
}

export async function startRegistry(dir: string, say: (line: string) => void): Promise<Registry> {
  const isThere = await run("docker-registry", ["--version"]).catch(() => undefined);
  if (isThere === undefined) await installPackage("docker-registry", "Install docker-registry.", say);
  await mkdir(dir, { recursive: true });
  const host = `127.0.0.1:${await freePort()}`;
  const config = join(dir, "config.yml");
  await writeFile(
    config,
    JSON.stringify({
      version: "0.1",
      log: { level: "warn" },
      storage: { filesystem: { rootdirectory: join(dir, "data") } },
      http: { addr: host },
    }),
  );
  const server = await startProcess({
    name: "docker-registry",
    command: "docker-registry",
    args: ["serve", config],
    logFile: join(dir, "log"),
  });
  await server.ready(async () => (await fetch(`http://${host}/v2/`)).ok);
  return { host, stop: () => server.stop() };
}
