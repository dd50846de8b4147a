/**
 * The base images of our image and of docker-compose.yml. An engine pulls them from a registry. If none can be reached,
 * a private engine gets stand-ins under the same names, built from Debian's packages and programs of this machine.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { cacheDir } from "../cache.ts";
import { makeDebian, suite } from "../image/debian.ts";
import { parseDockerfile } from "../image/dockerfile.ts";
import { findNpm } from "../image/local.ts";
import { withoutDigest } from "../image/pins.ts";
import { type Architecture, ownArchitecture } from "../image/release.ts";
import { findTools, installPackage, type ToolPaths } from "../tools.ts";
import type { Engine } from "./daemon.ts";
import { startRegistry } from "./registry.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

export interface BaseOptions {
  readonly engine: Engine;
  readonly tools: ToolPaths<"docker-buildx">;
  readonly say: (line: string) => void;
}

interface Base {
  /** As in the Dockerfile or docker-compose.yml, with its digest. */
  readonly reference: string;
  /** Without the digest, because a stand-in does not have it. */
  readonly name: string;
  readonly recipe: "node" | "valkey" | "gitea";
  readonly architecture: Architecture;
  /** Writes the files that the recipe copies to a directory. */
  fill(dir: string): Promise<void>;
}

/** Returns the names of the stand-ins by the references that they replace. */
export async function provideBases(options: BaseOptions): Promise<Map<string, string>> {
  const standIns = new Map<string, string>();
  for (const base of await listBases(options.say)) {
    const { engine } = options;
    const isPulled = (await labelOf(base.reference, engine)) === "";
    // A stand-in has a label; an image with the same tag may be an older one.
    const hasStandIn = Boolean(await labelOf(base.name, engine));
    if (isPulled || (!hasStandIn && (await isPullable(engine, base.reference)))) continue;
    if (!engine.isPrivate)
      throw new Error(`Cannot pull ${base.reference}. With --private, a substitute is built from Debian's packages.`);
    standIns.set(base.reference, base.name);
    const recipe = await hashOf(base);
    if ((await labelOf(base.name, engine)) !== recipe) await compose(base, recipe, options);
  }
  return standIns;
}

export interface Together {
  /** Name to use in a Dockerfile. */
  readonly name: string;
  stop(): Promise<void>;
}

/**
 * Provides the base of the image for this architecture and for another one under one name, through a registry: an
 * engine keeps one image per name, a registry one per architecture. Returns `undefined` if the engine can pull it, so
 * that nothing needs to be done.
 */
export async function provideBothBases({
  architecture,
  ...options
}: BaseOptions & { readonly architecture: Architecture }): Promise<Together | undefined> {
  const { engine, tools, say } = options;
  const [own] = await listBases(say);
  if ((await labelOf(own!.reference, engine)) === "" || !(await labelOf(own!.name, engine))) return undefined;
  const foreign = {
    ...own!,
    name: `towline.invalid/node-${architecture}`,
    architecture,
    fill: (dir: string) => fillNode(dir, architecture),
  };
  const recipe = await hashOf(foreign);
  if ((await labelOf(foreign.name, engine)) !== recipe) await compose(foreign, recipe, options);
  const dir = await mkdtemp(join(tmpdir(), "towline-registry-"));
  const registry = await startRegistry(dir, say).catch(async (error: unknown) => {
    await rm(dir, { recursive: true, force: true });
    throw error;
  });
  const stop = async () => {
    await registry.stop();
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const pushed: string[] = [];
    for (const base of [own!, foreign]) {
      const name = `${registry.host}/base:${base.architecture}`;
      await engine.docker("tag", base.name, name);
      await engine.docker("push", "--quiet", name);
      await engine.docker("rmi", name);
      pushed.push(name);
    }
    const name = `${registry.host}/base:both`;
    await run(tools["docker-buildx"], ["imagetools", "create", "--tag", name, ...pushed], { env: engine.env });
    return { name, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The hash of a stand-in's sources; empty for an image that was pulled, `undefined` if there is no such image. */
async function labelOf(name: string, engine: Engine): Promise<string | undefined> {
  return engine.docker("image", "inspect", "--format", '{{index .Config.Labels "towline.recipe"}}', name).then(
    (text) => text.trim(),
    () => undefined,
  );
}

async function isPullable(engine: Engine, name: string): Promise<boolean> {
  return engine.docker("pull", "--quiet", name).then(
    () => true,
    () => false,
  );
}

/** The base image in the Dockerfile, unless a build argument overrides it. */
export async function baseOfDockerfile(): Promise<string> {
  return parseDockerfile(await readFile(join(root, "Dockerfile"), "utf8")).args["NODE_IMAGE"]!;
}

/** The images of docker-compose.yml that are not ours, with their digests. */
export async function imagesOfCompose(): Promise<Record<"redis" | "gitea", string>> {
  const { services } = parse(await readFile(join(root, "docker-compose.yml"), "utf8")) as {
    services: Record<"redis" | "gitea", { image: string }>;
  };
  return { redis: services.redis.image, gitea: services.gitea.image };
}

async function listBases(say: BaseOptions["say"]): Promise<Base[]> {
  const node = await baseOfDockerfile();
  const composed = await imagesOfCompose();
  const bases: Omit<Base, "name" | "architecture">[] = [
    { reference: node, recipe: "node", fill: (dir) => fillNode(dir, ownArchitecture) },
    { reference: composed.redis, recipe: "valkey", fill: async () => undefined },
    { reference: composed.gitea, recipe: "gitea", fill: (dir) => fillGitea(dir, say) },
  ];
  return bases.map((base) => ({ ...base, name: withoutDigest(base.reference), architecture: ownArchitecture }));
}

async function hashOf({ recipe }: Pick<Base, "recipe">): Promise<string> {
  const text = await readFile(recipeOf(recipe), "utf8");
  return createHash("sha256")
    .update(`${text}${process.version}${await readAuthorities()}`)
    .digest("hex");
}

function recipeOf(recipe: Base["recipe"]): string {
  return join(import.meta.dirname, "base", `${recipe}.Dockerfile`);
}

async function compose(base: Base, hash: string, { engine, tools, say }: BaseOptions): Promise<void> {
  const { name, recipe, architecture, fill } = base;
  const debian = `towline.invalid/debian:${suite}-${architecture}`;
  const dir = await mkdtemp(join(tmpdir(), "towline-base-"));
  try {
    const known = await engine.docker("image", "inspect", "--format", "{{.Architecture}}", debian).catch(() => "");
    if (known.trim() !== architecture)
      await buildDebian(debian, join(dir, "debian"), architecture, { engine, tools, say });
    say(`cannot pull ${name} from a registry: building a substitute …`);
    const context = join(dir, "context");
    await mkdir(context);
    await fill(context);
    const args = [
      ...["--network=host", "--platform", `linux/${architecture}`, "--build-arg", `DEBIAN=${debian}`],
      ...["--file", recipeOf(recipe), "--label", `towline.recipe=${hash}`, "--tag", name],
    ];
    await run(tools["docker-buildx"], ["build", ...args, context], { env: engine.env, maxBuffer: 1e8 });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Built rather than imported, because older engines assume their own architecture for imported images. */
async function buildDebian(
  name: string,
  dir: string,
  architecture: Architecture,
  { engine, tools, say }: BaseOptions,
): Promise<void> {
  await installPackage("debootstrap", "Install debootstrap.", say);
  say(`installing Debian (${suite}, ${architecture}) with debootstrap …`);
  await makeDebian(dir, architecture);
  const context = `${dir}-packed`;
  await mkdir(context);
  await run("tar", ["-C", dir, "-cf", join(context, "debian.tar"), "."]);
  await writeFile(join(context, "Dockerfile"), "FROM scratch\nADD debian.tar /\n");
  const args = ["build", "--platform", `linux/${architecture}`, "--tag", name, context];
  await run(tools["docker-buildx"], args, { env: engine.env, maxBuffer: 1e8 });
}

async function fillNode(dir: string, architecture: Architecture): Promise<void> {
  await cp(await findNode(architecture), join(dir, "node"));
  await cp(await findNpm(), join(dir, "npm"), { recursive: true });
  await mkdir(join(dir, "etc"));
  const authorities = await readAuthorities();
  await writeFile(join(dir, "etc/npm-authorities.pem"), authorities);
  await writeFile(join(dir, "etc/npmrc"), authorities === "" ? "" : "cafile=/usr/local/etc/npm-authorities.pem\n");
}

/** For another architecture, installs npm's `node` package of the same version. */
async function findNode(architecture: Architecture): Promise<string> {
  if (architecture === ownArchitecture) return process.execPath;
  const name = `node-linux-${architecture === "amd64" ? "x64" : architecture}`;
  const dir = join(cacheDir(), `node-${architecture}-${process.version}`);
  const node = join(dir, "node_modules", name, "bin/node");
  const isThere = await access(node).then(
    () => true,
    () => false,
  );
  // Forced, because npm refuses packages for other machines.
  const args = ["install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--force"];
  if (!isThere) await run("npm", [...args, `${name}@${process.versions.node}`]);
  return node;
}

/** The additional authorities that this machine's Node trusts, for example behind a proxy. */
async function readAuthorities(): Promise<string> {
  const path = process.env["NODE_EXTRA_CA_CERTS"];
  return path === undefined ? "" : readFile(path, "utf8");
}

/** Copies the program and its templates as they were built, and from its module the scripts of the official image. */
async function fillGitea(dir: string, say: BaseOptions["say"]): Promise<void> {
  const { gitea } = await findTools(["gitea"], { say });
  await cp(dirname(gitea), join(dir, "gitea"), { recursive: true });
  const module = ["mod", "download", "-json", "code.gitea.io/gitea"];
  const { stdout } = await run("go", module, { cwd: join(root, "dev/tools/gitea") });
  const { Dir } = JSON.parse(stdout) as { Dir: string };
  await run("cp", ["-r", "--no-preserve=mode", join(Dir, "docker/rootless"), join(dir, "rootless")]);
  await run("chmod", ["-R", "a+rX", dir]);
  await run("bash", ["-c", 'chmod 0755 "$0"/usr/local/bin/*', join(dir, "rootless")]);
}
