/** `npm run pin`: writes the digests of the base images, or reports which have none. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { findPins, isDigest, type Pin, pinnedFiles, writePins } from "./image/pins.ts";

const help = `npm run pin [-- options]

Asks the registries, with \`docker buildx imagetools inspect\`, for the current digests of the base images in Dockerfile,
docker-compose.yml and the chart, and writes the digests into these files. Then run \`npm run docs\`, review the diff, and commit
it. Needs Docker with buildx, and network access.

  --check     Contact no registry and change nothing; fail if an image has no digest
  --root DIR  Use another checkout
  --help      Show this help
`;

const run = promisify(execFile);
const { values: options } = parseArgs({
  options: {
    check: { type: "boolean", default: false },
    root: { type: "string", default: join(import.meta.dirname, "..") },
    help: { type: "boolean", default: false },
  },
});

if (options.help) process.stdout.write(help);
else if (options.check) await check();
else await pin();

async function check(): Promise<void> {
  const unpinned = (await readAll()).filter(({ digest }) => digest === undefined);
  for (const { file, reference } of unpinned) process.stderr.write(`${file}: ${reference} has no digest\n`);
  if (unpinned.length === 0) return;
  process.stderr.write("Run npm run pin on a machine with network access to add them.\n");
  process.exitCode = 1;
}

async function pin(): Promise<void> {
  const references = new Set((await readAll()).map(({ reference }) => reference));
  const digests = new Map<string, string>();
  for (const reference of references) {
    digests.set(reference, await resolve(reference));
    process.stdout.write(`${reference} ${digests.get(reference)}\n`);
  }
  for (const file of pinnedFiles) {
    const path = join(options.root, file);
    await writeFile(path, writePins(file, await readFile(path, "utf8"), digests));
  }
}

async function readAll(): Promise<Pin[]> {
  const all = await Promise.all(
    pinnedFiles.map(async (file) => findPins(file, await readFile(join(options.root, file), "utf8"))),
  );
  return all.flat();
}

/** Returns the digest of the index, which covers all architectures. */
async function resolve(reference: string): Promise<string> {
  const { stdout } = await run("docker", [
    ...["buildx", "imagetools", "inspect", reference],
    ...["--format", "{{ .Manifest.Digest }}"],
  ]);
  const digest = stdout.trim();
  if (!isDigest(digest)) throw new Error(`docker returned no digest for ${reference}: ${digest.slice(0, 200)}`);
  return digest;
}
