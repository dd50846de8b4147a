/**
 * A kluctl for the harness: accepts kluctl's command line and prints its results for the small projects of render.ts.
 * It applies the objects one by one with a pause between them, so that deploys can be interrupted halfway, and reports
 * its progress to a journal; it waits for the answer to each event, so that a fault can strike exactly there.
 *
 * `node model-kluctl.ts <socket> <pause in ms> <real kluctl or -> <arguments of kluctl …>`. With a real kluctl the
 * journal does not contain single objects.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { relative } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";
import { type Api, createApi, type Kubeconfig, type LiveObject } from "./model-api.ts";
import { CloneError, cloneTree, headOf, readTree, rootOf } from "./model-tree.ts";
import {
  type ConfigMap,
  discriminatorLabel,
  hashOf,
  refOf,
  type Rendered,
  RenderError,
  renderProject,
  type Tree,
} from "./render.ts";

const [socketPath = "", pause = "0", real = "-", ...argv] = process.argv.slice(2);
const command = argv[0] ?? "";
const flags = new Map(
  argv.flatMap((argument) => {
    const [, name, value] = /^--([a-z-]+)=(.*)$/s.exec(argument) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value] as const];
  }),
);
const resultFile = argv.find((argument) => argument.startsWith("yaml="))?.slice("yaml=".length);
const projectDir = flags.get("project-dir") ?? ".";
const mutating = (command === "deploy" || command === "delete") && flags.get("dry-run") !== "true";
/** Prefix of the annotations in which the harness stores which run wrote an object; not part of the comparison. */
const stamps = "chaos.towline.dev";

interface ResultError {
  readonly ref: object;
  readonly message: string;
}

/** What was done to one object, for the result. */
interface Done {
  readonly ref: object;
  readonly rendered?: ConfigMap;
  readonly remote?: LiveObject | undefined;
  readonly applied?: object;
  readonly changes?: readonly object[];
  readonly new?: boolean;
  readonly orphan?: boolean;
  readonly deleted?: boolean;
}

if (command !== "version") process.exitCode = await main();
else if (real === "-") process.stdout.write("2.27.0\n");
else process.exitCode = await runReal(real);

async function main(): Promise<number> {
  const journal = await openJournal(socketPath);
  const api = createApi(parse(readFileSync(process.env["KUBECONFIG"] ?? "", "utf8")) as Kubeconfig);
  const args = flags.get("args-from-file");
  const { deployment } = (args ? JSON.parse(readFileSync(args, "utf8")) : {}) as { deployment?: string };
  const discriminator = flags.get("discriminator");
  const id = randomUUID().slice(0, 8);
  await journal.say({
    event: "start",
    id,
    pid: process.pid,
    server: api.server,
    command,
    deployment,
    discriminator,
    commit: discriminator === undefined ? headOf(projectDir) : "",
    mutating,
  });
  let code: number;
  try {
    code = real === "-" ? await model(id, journal, api) : await runBeside(real, journal);
  } catch (error) {
    process.stderr.write(`Error: ${(error as Error).message}\n`);
    code = 1;
  }
  await journal.say({ event: "end", exitCode: code });
  journal.close();
  return code;
}

/**
 * The journal needs to know what is rendered, unless a repository cannot be read at the moment. A project that the model
 * cannot render, the real kluctl has to refuse too.
 */
async function runBeside(path: string, journal: Journal): Promise<number> {
  let isBroken = false;
  if (command !== "delete") {
    try {
      await journal.say({ event: "rendered", hash: hashOf(render().objects) });
    } catch (error) {
      if (!(error instanceof RenderError || error instanceof CloneError)) throw error;
      isBroken = error instanceof RenderError;
    }
  }
  const code = await runReal(path);
  if (isBroken && code === 0) throw new Error("the real kluctl accepts a project that the model of it refuses");
  return code;
}

async function runReal(path: string): Promise<number> {
  const child = spawn(path, argv, { stdio: "inherit" });
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  return code ?? (signal === null ? 1 : 137);
}

type Journal = Awaited<ReturnType<typeof openJournal>>;

/** Stays open as long as this process lives: the harness detects the end of the run by the end of the connection. */
async function openJournal(path: string) {
  const socket = connect(path);
  await once(socket, "connect");
  const answers = createInterface(socket)[Symbol.asyncIterator]();
  return {
    async say(words: object): Promise<void> {
      socket.write(`${JSON.stringify(words)}\n`);
      const { done } = await answers.next();
      if (done) throw new Error("the harness is gone");
    },
    close: () => socket.destroy(),
  };
}

async function model(id: string, journal: Journal, api: Api): Promise<number> {
  const startTime = now();
  const clusterId = await api.clusterId();
  const dryRun = command === "diff" || command === "prune" || flags.get("dry-run") === "true";
  const errors: ResultError[] = [];
  const objects: Done[] = [];
  let rendered: Rendered | undefined;
  let discriminator = flags.get("discriminator") ?? "";
  if (command !== "delete") {
    rendered = render();
    discriminator = rendered.discriminator;
    await journal.say({ event: "rendered", hash: hashOf(rendered.objects) });
  }
  if (command === "diff" || command === "deploy") {
    let written = 0;
    for (const object of rendered?.objects ?? []) {
      if (written > 0) await sleep(Number(pause));
      const done = await applyOne(object, dryRun, id, api).catch((error: Error): Done => {
        errors.push({ ref: refOf(object), message: error.message });
        return { ref: refOf(object), rendered: object };
      });
      objects.push(done);
      if (!dryRun && (done.new || done.changes)) await journal.say({ event: "patched", number: ++written });
    }
  }
  if (command !== "validate") {
    const names = new Set(rendered?.objects.map(({ metadata }) => metadata.name));
    // kluctl has applied by then what it could, and its result says so.
    const listed = await api.list(discriminator).catch((error: Error): LiveObject[] => {
      if (rendered === undefined) throw error;
      errors.push({ ref: { kind: "", name: "" }, message: error.message });
      return [];
    });
    const others = listed.filter(({ metadata }) => !names.has(metadata.name));
    for (const remote of others) {
      const deletes = command === "delete" || command === "prune";
      if (deletes && !dryRun) {
        await sleep(Number(pause));
        await api.remove(remote);
        await journal.say({ event: "patched", number: objects.length + 1 });
      }
      objects.push({ ref: refOf(remote), remote, ...(deletes ? { deleted: true } : { orphan: true }) });
    }
  }
  await journal.say({ event: "writing" });
  const common = {
    id: randomUUID(),
    reconcileId: "",
    projectKey: {},
    targetKey: { targetName: flags.get("target"), clusterId, discriminator },
  };
  const document =
    command === "validate"
      ? { ...common, startTime, endTime: now(), ready: true, warnings: [], errors: [], results: [] }
      : {
          ...common,
          target: { name: flags.get("target"), context: "default", args: {}, images: [], discriminator },
          command: { initiator: "CommandLine", startTime, endTime: now(), command, args: {} },
          gitInfo: {
            url: null,
            ref: null,
            subDir: "",
            commit: command === "delete" ? "" : headOf(projectDir),
            dirty: false,
          },
          clusterInfo: { clusterId },
          deployment: rendered?.config ?? { deployments: [] },
          compactedObjects: objects.map(toCompacted),
          errors,
          warnings: [],
          seenImages: [],
        };
  if (resultFile) writeFileSync(resultFile, JSON.stringify(document));
  if (errors.length > 0) process.stderr.write("Error: command failed\n");
  return errors.length > 0 ? 1 : 0;
}

/** Writes nothing if the object is as rendered, like a server-side apply that changes nothing. */
async function applyOne(object: ConfigMap, dryRun: boolean, run: string, api: Api): Promise<Done> {
  const ref = refOf(object);
  const remote = await api.find(object);
  const changes = remote ? changesOf(remote, object) : [];
  if (remote && changes.length === 0) return { ref, rendered: object, remote, applied: remote };
  const annotations = { [`${stamps}/run`]: run, [`${stamps}/commit`]: headOf(projectDir) };
  const stamped = { ...object, metadata: { ...object.metadata, annotations } };
  const applied = await api.apply(dryRun ? object : stamped, dryRun);
  return { ref, rendered: object, remote, applied, ...(remote ? { changes } : { new: true }) };
}

function changesOf(remote: LiveObject, object: ConfigMap): object[] {
  const before = remote.data ?? {};
  const owner = remote.metadata.labels?.[discriminatorLabel];
  const wanted = object.metadata.labels?.[discriminatorLabel];
  const changes: object[] = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(object.data)])) {
    const [oldValue, newValue] = [before[key], object.data[key]];
    if (oldValue === newValue) continue;
    const type = oldValue === undefined ? "insert" : newValue === undefined ? "delete" : "update";
    changes.push({ type, jsonPath: `data.${key}`, oldValue, newValue, unifiedDiff: `-${oldValue}\n+${newValue}` });
  }
  if (owner !== wanted) {
    const jsonPath = `metadata.labels["${discriminatorLabel}"]`;
    changes.push({ type: "update", jsonPath, oldValue: owner, newValue: wanted, unifiedDiff: `-${owner}\n+${wanted}` });
  }
  return changes;
}

function toCompacted({ rendered, remote, applied, ...rest }: Done): object {
  const full = (object: object | undefined) => (object === undefined ? "" : `full: ${JSON.stringify(object)}`);
  return { ...rest, rendered: full(rendered), remote: full(remote), applied: full(applied) };
}

function render(): Rendered {
  const root = rootOf(projectDir);
  const included = new Map<string, Tree>();
  const fetch = (url: string) => {
    const known = included.get(url);
    if (known) return known;
    const tree = cloneTree(url);
    included.set(url, tree);
    return tree;
  };
  return renderProject({ tree: readTree(root), path: relative(root, projectDir) || ".", included: fetch });
}

function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}
