/**
 * An environment in which the documentation's commands of other programs are run: an API server of the test's own with
 * the namespaces that the pages use, and the real programs. Nothing is shared, so all changes end with the test.
 */
import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { cacheDir } from "../../dev/cache.ts";
import { apiServerTools, startApiServer } from "../../dev/parts/control-plane.ts";
import { startProcess } from "../../dev/parts/process.ts";
import type { ToolName } from "../../dev/tool-table.ts";
import { findTools } from "../../dev/tools.ts";
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import { documentedBlocks, inlineCommands } from "./documented-commands.ts";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import { patience } from "./patience.ts";
import { useTempDir } from "./world.ts";

export interface ForeignDesk {
  readonly dir: string;
  readonly kubeconfig: string;
  /** URL of the API server. */
  readonly server: string;
  readonly client: KubeClient;
  /** Paths of the programs that it was set up with. */
  readonly tools: Readonly<Record<string, string>>;
  /** Runs commands in a bash and returns their output; throws with the whole output if they fail. */
  type(commands: string, options?: { readonly cwd?: string }): Promise<string>;
  /** Adds a program to the PATH. */
  program(name: string, script: string): Promise<void>;
  /** Starts a process that runs until the test ends. */
  start(name: string, command: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<void>;
  apply(...objects: readonly object[]): Promise<void>;
  /** Applies all CRDs in a directory, or one file, and waits until they are served. */
  define(path: string): Promise<void>;
  /** Returns `undefined` if it does not exist. */
  find<T = Found>(path: string): Promise<T | undefined>;
}

interface Found {
  readonly metadata: {
    readonly annotations?: Record<string, string>;
    readonly labels?: Record<string, string>;
  };
  readonly spec: Record<string, unknown>;
  readonly data?: Record<string, string>;
}

/** `env` is added to the environment of the programs. */
export async function useForeignDesk(
  names: readonly ToolName[],
  env: Readonly<Record<string, string>> = {},
): Promise<ForeignDesk> {
  const say = () => undefined;
  const [dir, tools, parts] = await Promise.all([
    useTempDir(),
    findTools(["kubectl", "kluctl", ...names], { say }),
    findTools(apiServerTools, { say }),
  ]);
  const { kubeconfig, server, stop } = await startApiServer({ tools: parts, stateDir: dir });
  onTestFinished(stop);
  const client = createKubeClient({ kubeconfig });
  onTestFinished(() => client.close());
  const bin = join(dir, "bin");
  await mkdir(bin);
  const ownEnv = {
    ...kluctlEnvironment({ cluster: { kubeconfig } as never, dir, kluctlCache: join(cacheDir(), "kluctl") }),
    ...env,
    PATH: `${bin}:/usr/bin:/bin`,
  };

  const desk: ForeignDesk = {
    ...{ dir, kubeconfig, server, client, tools },
    type(commands, { cwd = dir } = {}) {
      return new Promise((resolve, reject) => {
        const args = ["--norc", "-c", `set -e\n${commands}`];
        const child = execFile("/bin/bash", args, { cwd, env: ownEnv, timeout: 120_000 }, (error, out, err) => {
          if (error) reject(new Error(`${commands}\n${String(error.code)}: ${out}${err}`, { cause: error }));
          else resolve(out);
        });
        child.stdin?.end(); // prompts get no answer
      });
    },
    async program(name, script) {
      await writeFile(join(bin, name), `#!/bin/bash\n${script}\n`);
      await chmod(join(bin, name), 0o755);
    },
    async start(name, command, args, more = {}) {
      const logFile = join(dir, "logs", `${name}.log`);
      const started = await startProcess({ name, command, args, logFile, cwd: dir, env: { ...ownEnv, ...more } });
      onTestFinished(() => started.stop(500));
    },
    async apply(...objects) {
      const file = join(dir, "objects.json");
      await writeFile(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
      await desk.type(`kubectl apply --server-side --filename ${file}`);
    },
    async define(path) {
      const made = (await desk.type(`kubectl apply --server-side --filename ${path} --output name`)).trim().split("\n");
      // `kubectl wait` fails while an object has no conditions.
      const wait = `kubectl wait --for condition=established --timeout 60s ${made.join(" ")}`;
      await desk.type(`until said=$(${wait} 2>&1); do [[ $said = *accessor* ]]; done`);
    },
    async find<T>(path: string) {
      const answer = await client.request({ method: "GET", path }).catch((error: { status?: number }) => {
        if (error.status === 404) return undefined;
        throw error;
      });
      return answer as T | undefined;
    },
  };
  for (const name of ["kubectl", "kluctl", ...names] as const) await desk.program(name, `exec ${tools[name]} "$@"`);
  return desk;
}

/** The commands of a program in the documentation, each line and each command in a sentence once. */
export function documentedCommands(program: string): readonly string[] {
  const isOf = (text: string) => text.startsWith(`${program} `);
  const lines = documentedBlocks().flatMap(({ text }) => text.replaceAll(/\\\n\s*/g, "").split("\n"));
  const all = [...lines, ...inlineCommands().map(({ text }) => text)].filter(isOf);
  return [...new Set(all.map((text) => text.replace(/\s+#.*$/, "").trim()))];
}

/**
 * Runs each documented command of a program in the order of the table, which defines the expected result. A command
 * that is not in the table fails, because its effect has not been checked.
 */
export async function runDocumented(
  program: string,
  effects: Readonly<Record<string, (command: string) => Promise<void>>>,
): Promise<void> {
  expect(Object.keys(effects).toSorted()).toEqual(documentedCommands(program).toSorted());
  for (const [command, effect] of Object.entries(effects)) {
    await effect(command).catch((cause: unknown) => {
      throw new Error(`${command}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    });
  }
}

/** Waits until the value equals the wanted one. */
export async function becomes(what: () => Promise<unknown>, wanted: unknown): Promise<void> {
  await expect.poll(what, patience).toEqual(wanted);
}
