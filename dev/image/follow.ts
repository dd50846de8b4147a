/**
 * Builds a Dockerfile without an engine: each instruction makes a layer of its own with the kernel's overlays, as in an
 * engine. Needs Linux and root. All mounts are in a namespace of their own, so none remain when the process that holds
 * it ends.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { type Dockerfile, expand, type Instruction, type Stage, toPairs } from "./dockerfile.ts";

export interface FollowOptions {
  readonly dockerfile: Dockerfile;
  /** The build context that instructions copy from. */
  readonly context: string;
  /** The root directory of the base image; `/` is possible as well. */
  readonly base: string;
  /** Directory with the changes of this layer. */
  readonly layer: string;
  /** An empty directory. */
  readonly workDir: string;
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** Additional paths that commands see: paths in the image → paths of this machine. They are not part of a layer. */
  readonly lent?: Readonly<Record<string, string>>;
  /** The same, but also visible when the image is run. */
  readonly kept?: Readonly<Record<string, string>>;
  /** Directories of the base that do not belong to it: empty for every command. */
  readonly hidden?: readonly string[];
  /** Returns a command to run instead of that of a RUN, if any. */
  readonly instead?: (stage: Stage, command: string) => string | undefined;
  /** Environment of commands, in addition to that of the image. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface Layer {
  readonly instruction: Instruction;
  readonly dir: string;
  readonly milliseconds: number;
  readonly bytes: number;
  readonly files: number;
}

export interface Image {
  readonly layers: readonly Layer[];
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly workDir: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly volumes: readonly string[];
  readonly ports: readonly number[];
  readonly labels: Readonly<Record<string, string>>;
  readonly healthcheck?: readonly string[] | undefined;
}

export interface Followed {
  /** The configuration of the last stage. */
  readonly image: Image;
  /** Returns the path by which this process can read a path of the image. */
  hostPath(path: string): string;
  /** A command line prefix that enters the namespace in which the layers' directories exist. */
  readonly enter: readonly [string, ...string[]];
  /**
   * The command line that runs the image like `docker run --read-only --cap-drop ALL`: with a read-only root, empty
   * volumes of its own and no capabilities. It replaces itself with the process that it starts.
   */
  toContainer(options: ContainerOptions): readonly [string, ...string[]];
  end(): Promise<void>;
}

export interface ContainerOptions {
  /** Numeric, such as `1000:0`; the image's own if absent. */
  readonly user?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** Files in its volumes that only the user can read: paths in the image → files of this machine. */
  readonly files?: Readonly<Record<string, string>>;
  /** Replaces the image's own. */
  readonly entrypoint?: readonly string[] | undefined;
  readonly cmd?: readonly string[] | undefined;
}

interface Built extends Image {
  readonly merged: string;
}

class StepError extends Error {
  override name = "StepError";
}

export async function follow(options: FollowOptions): Promise<Followed> {
  const space = await openNamespace(options);
  try {
    const builds = new Map<Stage, Promise<Built>>();
    const build = (stage: Stage): Promise<Built> => {
      const known = builds.get(stage) ?? followStage(stage, options, space, (name) => build(find(options, name)));
      builds.set(stage, known);
      return known;
    };
    // Stages that do not depend on each other are built concurrently.
    const all = await Promise.all(options.dockerfile.stages.map(build));
    const image = all.at(-1)!;
    const root = await mountReadOnly(image, options, space);
    return {
      image,
      hostPath: (path) => `/proc/${space.pid}/root${join(root, path)}`,
      enter: space.enter,
      toContainer: (how) => toContainer(image, root, how, space),
      end: space.end,
    };
  } catch (error) {
    await space.end();
    throw error;
  }
}

function find({ dockerfile }: FollowOptions, name: string): Stage {
  const stage = dockerfile.stages.find((one) => one.name === name);
  if (stage === undefined) throw new Error(`The Dockerfile has no stage "${name}".`);
  return stage;
}

interface Namespace {
  readonly pid: number;
  readonly dir: string;
  readonly enter: readonly [string, ...string[]];
  /** Runs a bash script in it; throws with the script's output if it fails. */
  run(script: string): Promise<string>;
  end(): Promise<void>;
}

async function openNamespace({ workDir: dir, layer }: FollowOptions): Promise<Namespace> {
  const holder = spawn("unshare", ["--mount", "--propagation", "private", "sh", "-c", "echo; exec cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(holder, "exit");
  await Promise.race([once(holder.stdout, "data"), ended.then(() => Promise.reject(new Error("unshare failed")))]);
  const pid = holder.pid!;
  const enter = ["nsenter", `--mount=/proc/${pid}/ns/mnt`, "--"] as const;
  const space: Namespace = {
    pid,
    dir,
    enter,
    run: (script) => runCommand([...enter, "bash", "-euo", "pipefail", "-c", script]),
    async end() {
      holder.stdin.end();
      await ended;
    },
  };
  // A file system of its own, because an overlay's upper directory cannot be on the overlay that it covers.
  await space.run(`mount -t tmpfs -o mode=0755,size=4g tmpfs ${quote(dir)}; cp -a ${quote(layer)} ${quote(dir)}/base`);
  return space;
}

async function followStage(
  stage: Stage,
  options: FollowOptions,
  space: Namespace,
  find: (name: string) => Promise<Built>,
): Promise<Built> {
  const { buildArgs = {}, dockerfile } = options;
  const place = join(space.dir, `stage-${dockerfile.stages.indexOf(stage)}`);
  const layers: Layer[] = [];
  let merged = "";
  const image = {
    env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" } as Record<string, string>,
    args: {} as Record<string, string>,
    labels: {} as Record<string, string>,
    user: "0:0",
    workDir: "/",
    entrypoint: [] as readonly string[],
    cmd: [] as readonly string[],
    volumes: [] as string[],
    ports: [] as number[],
    healthcheck: undefined as readonly string[] | undefined,
  };

  async function addLayer(instruction: Instruction, fill: (root: string) => Promise<void>): Promise<void> {
    const from = performance.now();
    const [dir, work, root] = ["layer", "work", "root"].map((name) => join(place, `${layers.length}-${name}`));
    const below = toLower(layers, options, space);
    await space.run(
      `mkdir -p ${dir} ${work} ${root}; mount -t overlay overlay -o lowerdir=${below},upperdir=${dir},workdir=${work} ${root}`,
    );
    await fill(root!);
    const [bytes = 0, files = 0] = (await space.run(`du -sb ${dir} | cut -f1; find ${dir} -type f | wc -l`))
      .trim()
      .split("\n")
      .map(Number);
    merged = root!;
    layers.push({ instruction, dir: dir!, milliseconds: performance.now() - from, bytes, files });
  }

  for (const instruction of stage.instructions) {
    const { name, text, list } = instruction;
    const values = { ...image.args, ...image.env };
    if (name === "ARG") {
      for (const [key, otherwise] of Object.entries(toPairs(text))) {
        const value = buildArgs[key] ?? dockerfile.args[key] ?? otherwise;
        if (value !== "") image.args[key] = value;
      }
    } else if (name === "ENV") Object.assign(image.env, toPairs(expand(text, values)));
    else if (name === "LABEL") Object.assign(image.labels, toPairs(expand(text, values)));
    else if (name === "USER") image.user = expand(text, values);
    else if (name === "ENTRYPOINT") image.entrypoint = inExecForm(instruction);
    else if (name === "CMD") image.cmd = inExecForm(instruction);
    else if (name === "HEALTHCHECK") image.healthcheck = inExecForm(instruction);
    else if (name === "VOLUME") image.volumes.push(...(list ?? [text]));
    else if (name === "EXPOSE") image.ports.push(...text.split(/\s+/).map(Number));
    else if (name === "WORKDIR") {
      image.workDir = posix.resolve(image.workDir, expand(text, values));
      await addLayer(instruction, async (root) => void (await space.run(`mkdir -p ${quote(root + image.workDir)}`)));
    } else if (name === "COPY") {
      await addLayer(instruction, async (root) => copy(instruction, root, { ...image, values }, options, space, find));
    } else if (name === "RUN") {
      const command = options.instead?.(stage, text) ?? text;
      await addLayer(instruction, async (root) => runInside(command, root, image, options, space));
    } else throw new Error(`line ${instruction.line}: ${name} is not supported by npm run image`);
  }
  return { ...image, layers, merged };
}

/** The uppermost layer first. */
function toLower(layers: readonly Layer[], { base }: FollowOptions, { dir }: Namespace): string {
  return [...layers.map((layer) => layer.dir).toReversed(), join(dir, "base"), base].join(":");
}

function inExecForm({ list, name, line }: Instruction): readonly string[] {
  if (list === undefined) throw new Error(`line ${line}: ${name} must be a JSON array`);
  return list;
}

async function copy(
  { text, flags }: Instruction,
  root: string,
  image: { workDir: string; values: Record<string, string> },
  { context }: FollowOptions,
  space: Namespace,
  find: (name: string) => Promise<Built>,
): Promise<void> {
  const from = flags["from"] === undefined ? context : (await find(flags["from"])).merged;
  const paths = expand(text, image.values).split(/\s+/);
  const last = paths.pop()!;
  const target = root + posix.resolve(image.workDir, last) + (last.endsWith("/") ? "/" : "");
  const intoDirectory = last.endsWith("/") || paths.length > 1;
  for (const path of paths) {
    const source = quote(join(from, path));
    // The contents of a directory are copied; a file is copied as such.
    const into = intoDirectory ? `${quote(target)}` : `"$(dirname ${quote(target)})"`;
    await space.run(
      `umask 022; if [ -d ${source} ]; then mkdir -p ${quote(target)}; cp -a --no-preserve=ownership ${source}/. ${quote(target)}; ` +
        `else mkdir -p ${into}; cp -a --no-preserve=ownership ${source} ${quote(target)}; fi`,
    );
  }
  const [mode, owner] = [flags["chmod"], flags["chown"]];
  if (mode) await space.run(`chmod --recursive ${quote(mode)} ${quote(target)}`);
  if (owner) await space.run(`chown --recursive ${quote(owner)} ${quote(target)}`);
}

async function runInside(
  command: string,
  root: string,
  image: { env: Record<string, string>; args: Record<string, string>; user: string; workDir: string },
  options: FollowOptions,
  space: Namespace,
): Promise<void> {
  const mounts = await lend(root, options, space);
  const env = toAssignments({ HOME: "/root", ...options.env, ...image.args, ...image.env });
  const shell = ["/bin/sh", "-c", `cd ${quote(image.workDir)}; ${command}`];
  const inside = ["chroot", `--userspec=${image.user}`, root, "/usr/bin/env", "-i", ...env, ...shell];
  try {
    await runCommand([...space.enter, ...inside]);
  } finally {
    await space.run(
      mounts
        .toReversed()
        // Including nested mounts: /proc brings along what is mounted below it on the machine.
        .map((path) => `umount --recursive ${quote(path)}`)
        .join("; "),
    );
  }
}

/** Mounts the paths and returns the mount points. */
async function lend(
  root: string,
  { lent, kept, hidden = [] }: Partial<FollowOptions>,
  space: Namespace,
): Promise<string[]> {
  const mounted: string[] = [];
  const mount = async (path: string, how: string) => {
    await space.run(how);
    mounted.push(path);
  };
  await mount(`${root}/proc`, `mount --rbind /proc ${root}/proc`);
  await mount(`${root}/dev`, `mount --bind /dev ${root}/dev`);
  for (const path of hidden) {
    const covered = quote(root + path);
    await mount(root + path, `mkdir -p ${covered}; mount -t tmpfs -o mode=1777 tmpfs ${covered}`);
  }
  for (const [path, from] of Object.entries({ ...lent, ...kept })) {
    const [source, target] = [quote(from), quote(root + path)];
    const make = `if [ -d ${source} ]; then mkdir -p ${target}; else mkdir -p "$(dirname ${target})"; [ -e ${target} ] || touch ${target}; fi`;
    await mount(root + path, `${make}; mount --bind ${source} ${target}`);
  }
  return mounted;
}

/** Mounts an overlay without an upper directory. */
async function mountReadOnly(image: Built, options: FollowOptions, space: Namespace): Promise<string> {
  const root = join(space.dir, "image");
  await space.run(
    `mkdir ${root}; mount -t overlay overlay -o ro,lowerdir=${toLower(image.layers, options, space)} ${root}`,
  );
  const { kept = {}, hidden = [] } = options;
  await lend(root, { kept, hidden: hidden.filter((path) => !image.volumes.includes(path)) }, space);
  return root;
}

function toContainer(image: Image, root: string, options: ContainerOptions, space: Namespace): [string, ...string[]] {
  const [uid = "", gid = ""] = (options.user ?? image.user).split(":");
  const volumes = image.volumes.map((volume) => {
    const path = quote(root + volume);
    return `mount -t tmpfs -o "$(stat -c 'mode=%a,uid=%u,gid=%g' ${path})" tmpfs ${path}`;
  });
  const files = Object.entries(options.files ?? {}).map(
    ([path, from]) => `install --owner=${uid} --group=${gid} --mode=0400 ${quote(from)} ${quote(root + path)}`,
  );
  const become = ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--no-new-privs"];
  const command = [...(options.entrypoint ?? image.entrypoint), ...(options.cmd ?? image.cmd)];
  return [
    "nsenter",
    ...space.enter.slice(1),
    ...["unshare", "--mount", "--propagation=private", "bash", "-euc"],
    `${[...volumes, ...files].join("; ")}; exec chroot ${quote(root)} "$@"`,
    "container",
    ...become,
    ...["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"],
    ...["env", "-i", `--chdir=${image.workDir}`, ...toAssignments({ ...image.env, ...options.env }), ...command],
  ];
}

function toAssignments(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).map(([key, value]) => `${key}=${value}`);
}

/** Copies the files that `.dockerignore`, which has to begin with `*`, does not exclude. */
export async function createContext(root: string, dir: string): Promise<void> {
  const lines = (await readFile(join(root, ".dockerignore"), "utf8")).split("\n");
  const [all, ...allowed] = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  if (all !== "*" || !allowed.every((line) => /^![\w./-]+$/.test(line)))
    throw new Error(".dockerignore must be `*`, followed by the allowed files.");
  await mkdir(dir, { recursive: true });
  const paths = allowed.map((line) => line.slice(1));
  await runCommand(["cp", "-a", "--parents", ...paths, dir], root);
}

async function runCommand([command = "", ...args]: readonly string[], cwd?: string): Promise<string> {
  const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let [out, all] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => ((out += chunk.toString()), (all += chunk.toString())));
  child.stderr.on("data", (chunk: Buffer) => (all += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new StepError(`${args.at(-1)?.slice(0, 200)}: ended with ${code}: ${all.slice(-2_000)}`);
  return out;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
