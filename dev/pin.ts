/** `npm run pin`: writes the digests of the images that ours is made of, or says which have none. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { findPins, isDigest, type Pin, pinnedFiles, writePins } from "./image/pins.ts";

const help = `npm run pin [-- options]

Asks the registries, by \`docker buildx imagetools inspect\`, for the digests that the tags of the base images of Dockerfile,
docker-compose.yml and the chart have now, and writes them there. Run \`npm run docs\` afterwards, look at the difference, and
commit it. It needs Docker with buildx, and the network.

  --check     ask nobody, change nothing: fail if an image has no digest
  --root DIR  another checkout than this one
  --help      this text
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
  process.stderr.write("npm run pin writes them, where there is a network.\n");
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

/** That of the index, which stands for all architectures. */
async function resolve(reference: string): Promise<string> {
  const { stdout } = await run("docker", [
    ...["buildx", "imagetools", "inspect", reference],
    ...["--format", "{{ .Manifest.Digest }}"],
  ]);
  const digest = stdout.trim();
  if (!isDigest(digest)) throw new Error(`docker gave no digest of ${reference}: ${digest.slice(0, 200)}`);
  return digest;
}
