/** A registry of this run's own: what an engine pulls from one may have an image for each architecture under one name. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../parts/port.ts";
import { startProcess } from "../parts/process.ts";
import { installPackage } from "../tools.ts";

const run = promisify(execFile);

export interface Registry {
  /** As names of images begin with it. */
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
