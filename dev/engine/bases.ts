/**
 * The images that ours and docker-compose.yml start from. An engine pulls them from a registry. Where none can be reached,
 * a private engine gets stand-ins under the same names, made of Debian's packages and of what this machine has.
 */
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { makeDebian, suite } from "../image/debian.ts";
import { parseDockerfile } from "../image/dockerfile.ts";
import { findNpm } from "../image/local.ts";
import { findTools, installPackage, type ToolPaths } from "../tools.ts";
import type { Engine } from "./daemon.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const debian = `towline.invalid/debian:${suite}`;

export interface BaseOptions {
  readonly engine: Engine;
  readonly tools: ToolPaths<"docker-buildx">;
  readonly say: (line: string) => void;
}

interface Base {
  /** As the Dockerfile or docker-compose.yml has it. */
  readonly name: string;
  readonly recipe: "node" | "valkey" | "gitea";
  /** Puts what the recipe copies into a directory. */
  fill(dir: string): Promise<void>;
}

/** Returns the names of those that are stand-ins. */
export async function provideBases(options: BaseOptions): Promise<string[]> {
  const standIns: string[] = [];
  for (const base of await listBases(options.say)) {
    const { engine } = options;
    const label = await engine
      .docker("image", "inspect", "--format", '{{index .Config.Labels "towline.recipe"}}', base.name)
      .then((text) => text.trim())
      .catch(() => undefined); // there is no such image yet
    const isPulled = label === "" || (label === undefined && (await isPullable(engine, base.name)));
    if (isPulled) continue;
    if (!engine.isPrivate)
      throw new Error(`${base.name} cannot be pulled. With --private, a stand-in is made of Debian's packages.`);
    standIns.push(base.name);
    const recipe = await hashOf(base);
    if (label !== recipe) await compose(base, recipe, options);
  }
  return standIns;
}

async function isPullable(engine: Engine, name: string): Promise<boolean> {
  return engine.docker("pull", "--quiet", name).then(
    () => true,
    () => false,
  );
}

async function listBases(say: BaseOptions["say"]): Promise<Base[]> {
  const read = (name: string) => readFile(join(root, name), "utf8");
  const node = parseDockerfile(await read("Dockerfile")).args["NODE_IMAGE"]!;
  const { services } = parse(await read("docker-compose.yml")) as {
    services: Record<"redis" | "gitea", { image: string }>;
  };
  return [
    { name: node, recipe: "node", fill: fillNode },
    { name: services.redis.image, recipe: "valkey", fill: async () => undefined },
    { name: services.gitea.image, recipe: "gitea", fill: (dir) => fillGitea(dir, say) },
  ];
}

async function hashOf({ recipe }: Base): Promise<string> {
  const text = await readFile(recipeOf(recipe), "utf8");
  return createHash("sha256")
    .update(`${text}${process.version}${await readAuthorities()}`)
    .digest("hex");
}

function recipeOf(recipe: Base["recipe"]): string {
  return join(import.meta.dirname, "base", `${recipe}.Dockerfile`);
}

async function compose({ name, recipe, fill }: Base, hash: string, { engine, tools, say }: BaseOptions): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "towline-base-"));
  try {
    const known = await engine.docker("image", "ls", "--quiet", debian);
    if (known.trim() === "") await importDebian(join(dir, "debian"), engine, say);
    say(`no registry has ${name} for us: making a stand-in …`);
    const context = join(dir, "context");
    await mkdir(context);
    await fill(context);
    const args = ["--network=host", "--file", recipeOf(recipe), "--label", `towline.recipe=${hash}`, "--tag", name];
    await run(tools["docker-buildx"], ["build", ...args, context], { env: engine.env, maxBuffer: 1e8 });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function importDebian(dir: string, engine: Engine, say: BaseOptions["say"]): Promise<void> {
  await installPackage("debootstrap", "Install debootstrap.", say);
  say(`making a Debian (${suite}) …`);
  await makeDebian(dir);
  const command = 'tar -C "$0" -c . | docker import - "$1"';
  const child = spawn("bash", ["-o", "pipefail", "-c", command, dir, debian], { env: engine.env, stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`docker import ended with ${code}`);
}

async function fillNode(dir: string): Promise<void> {
  await cp(process.execPath, join(dir, "node"));
  await cp(await findNpm(), join(dir, "npm"), { recursive: true });
  await mkdir(join(dir, "etc"));
  const authorities = await readAuthorities();
  await writeFile(join(dir, "etc/npm-authorities.pem"), authorities);
  await writeFile(join(dir, "etc/npmrc"), authorities === "" ? "" : "cafile=/usr/local/etc/npm-authorities.pem\n");
}

/** Whom this machine's Node trusts besides, as behind a proxy. */
async function readAuthorities(): Promise<string> {
  const path = process.env["NODE_EXTRA_CA_CERTS"];
  return path === undefined ? "" : readFile(path, "utf8");
}

/** The program and its templates as they were built, and from its module the scripts that its own image has. */
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
