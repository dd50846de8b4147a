/**
 * `npm run image`: shows what the image would contain, without a container engine. Follows the Dockerfile on a fresh Debian,
 * each instruction in its own layer, and measures the layers.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { makeDebian, suite } from "./image/debian.ts";
import { megabytes, print, startKluctl } from "./image/figures.ts";
import { parseDockerfile } from "./image/dockerfile.ts";
import { createContext, follow, type Followed, type Layer } from "./image/follow.ts";
import { createLocalBase } from "./image/local.ts";
import { findTools } from "./tools.ts";

const help = `npm run image [-- options]

Follows the Dockerfile without a container engine, and reports the size of each layer and how fast kluctl starts. Needs Linux, root
and Debian's mirror, and takes about two minutes. Node.js and kluctl are those of this machine: the newest kluctl that can be built
here, not the release.

  --debian DIR   Use a Debian root that debootstrap has created, instead of a new one
  --run COMMAND  Run COMMAND in the image's shell, as its user and on a read-only root, instead of measuring
  --help         Show this help
`;

const run = promisify(execFile);
const root = join(import.meta.dirname, "..");
const say = (line: string) => void process.stderr.write(`${line}\n`);

const { values: options } = parseArgs({
  options: { debian: { type: "string" }, run: { type: "string" }, help: { type: "boolean", default: false } },
});

if (options.help) process.stdout.write(help);
else await main();

async function main(): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error("Following the Dockerfile needs root, to mount file systems.");
  const dir = await mkdtemp(join(tmpdir(), "towline-image-"));
  try {
    const debian = options.debian ?? (await newDebian(join(dir, "debian")));
    say("following the Dockerfile …");
    const image = await followOn(debian, dir);
    try {
      if (options.run !== undefined) process.exitCode = await runIn(image, ["sh", "-c", options.run]);
      else await measure(image, debian);
    } finally {
      await image.end();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function newDebian(dir: string): Promise<string> {
  say(`installing Debian (${suite}) with debootstrap …`);
  return makeDebian(dir);
}

async function followOn(debian: string, dir: string): Promise<Followed> {
  const { kluctl, "towline-flux": fluxRenderer } = await findTools(["kluctl", "towline-flux"], { say });
  const [context, workDir] = [join(dir, "context"), join(dir, "work")];
  await mkdir(workDir);
  await createContext(root, context);
  const local = await createLocalBase({ dir: join(dir, "base"), kluctl, fluxRenderer });
  return follow({
    ...local,
    lent: { ...local.lent, "/etc/resolv.conf": "/etc/resolv.conf" },
    dockerfile: parseDockerfile(await readFile(join(root, "Dockerfile"), "utf8")),
    context,
    base: debian,
    workDir,
    hidden: ["/tmp"],
  });
}

async function measure(image: Followed, debian: string): Promise<void> {
  const rows: string[][] = [["layer", "files", "MB", "gzip, MB"]];
  const { stdout: bytes } = await run("du", ["-sb", debian]);
  rows.push(["Debian, in the base image", "", megabytes(parseInt(bytes)), megabytes(await packed(debian, image))]);
  const node = (await stat(process.execPath)).size;
  rows.push(["Node.js, in the base image", "1", megabytes(node), megabytes(await zipped(process.execPath))]);
  const layers = image.image.layers.filter(({ files }) => files > 0);
  for (const layer of layers) {
    const compressed = await packed(layer.dir, image);
    rows.push([describe(layer), String(layer.files), megabytes(layer.bytes), megabytes(compressed)]);
  }
  print(rows);

  say("starting kluctl …");
  process.exitCode = await runIn(image, ["bash", "-c", startKluctl]);
}

function describe({ instruction: { name, text, flags } }: Layer): string {
  const from = flags["from"] ? `from ${flags["from"]}: ` : "";
  return `${name} ${from}${text.replaceAll(/\s+/g, " ").slice(0, 60)}`;
}

/** Compressed size of the layer in bytes, as it is pulled. */
async function packed(dir: string, { enter: [command, ...args] }: Followed): Promise<number> {
  const pack = ["bash", "-c", 'tar -C "$0" -c . | gzip -6 | wc -c', dir];
  return Number((await run(command, [...args, ...pack])).stdout);
}

async function zipped(file: string): Promise<number> {
  return Number((await run("bash", ["-c", 'gzip -6 < "$0" | wc -c', file])).stdout);
}

async function runIn(image: Followed, command: readonly string[]): Promise<number> {
  const [file, ...args] = image.toContainer({ entrypoint: command, cmd: [] });
  const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}
