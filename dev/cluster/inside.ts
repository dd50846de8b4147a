/**
 * Runs inside the cluster's namespaces: starts the cluster, then runs a command that uses it. Exits with the command's
 * status.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { parse } from "yaml";
import { withoutDigest } from "../image/pins.ts";
import { findTools } from "../tools.ts";
import { nodeTools, startNode } from "./node.ts";

export interface Inside {
  readonly stateDir: string;
  readonly cniPlugins: string;
  /** Path of an image archive. */
  readonly image: string;
  readonly command: readonly [string, ...string[]];
}

const { stateDir, cniPlugins, image, command } = JSON.parse(process.argv[2]!) as Inside;
const say = (line: string) => void process.stderr.write(`${line}\n`);
const tools = await findTools([...nodeTools, "kluctl", "kubectl", "helm"], { say });

const from = performance.now();
const elapsed = () => ((performance.now() - from) / 1000).toFixed(1);
const node = await startNode({ tools, stateDir, cniPlugins });
try {
  say(`the cluster is up (${elapsed()} s)`);
  await node.importImage(image, await namesOfChart());
  say(`the images are imported (${elapsed()} s)`);
  // Appended, so that programs already on the PATH take precedence.
  const PATH = [process.env["PATH"], ...[tools.kubectl, tools.kluctl, tools.helm].map(dirname)].join(delimiter);
  const env = {
    ...process.env,
    PATH,
    KUBECONFIG: node.kubeconfig,
    TEST_CLUSTER: JSON.stringify({ kubeconfig: node.kubeconfig, stateDir }),
  };
  const child = spawn(command[0], command.slice(1), { stdio: "inherit", env });
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
} finally {
  await node.stop();
}

/** The server's image contains a Valkey, so it also serves under the name of the chart's Redis image. */
async function namesOfChart(): Promise<string[]> {
  const read = async (name: string) =>
    parse(await readFile(join(import.meta.dirname, "../../chart", name), "utf8")) as unknown;
  interface Image {
    readonly repository: string;
    readonly tag: string;
  }
  const { appVersion } = (await read("Chart.yaml")) as { appVersion: string };
  const { image: server, redis } = (await read("values.yaml")) as { image: Image; redis: { image: Image } };
  return [server, redis.image].map(
    ({ repository, tag }) => `docker.io/${repository}:${withoutDigest(tag || appVersion)}`,
  );
}
