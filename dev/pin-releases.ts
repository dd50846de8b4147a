/** `npm run pin:releases`: writes the checksums of published programs, or reports which have none. */
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { readOptions } from "./options.ts";
import { findChecksum, readTable, tablePath } from "./release/releases.ts";

const help = `npm run pin:releases [-- options]

Reads the checksums that the projects publish for the programs in dev/release/table.json, and writes them there. Review
the diff and commit it. Needs network access. A program without a checksum is built from its Go module instead.

  --check   Contact nobody and change nothing; fail if a program has no checksum
  --help    Show this help
`;

const options = readOptions({ check: { type: "boolean", default: false } }, help);
const table = readTable();
const published = new Map<string, Promise<string>>();

for (const [name, { version, checksums, platforms }] of Object.entries(table))
  for (const [platform, file] of Object.entries(platforms)) {
    const title = `${name} ${version} for ${platform}`;
    if (options.check) {
      if (file.sha256 === undefined) fail(`${title} has no checksum`);
      continue;
    }
    const list = checksums.replace("{url}", file.url);
    published.set(list, published.get(list) ?? read(list));
    try {
      const sha256 = findChecksum(await published.get(list)!, basename(new URL(file.url).pathname));
      if (sha256 === undefined) throw new Error(`${list} does not name it`);
      file.sha256 = sha256;
      process.stdout.write(`${title}: ${sha256}\n`);
    } catch (error) {
      fail(`${title}: ${(error as Error).message}`);
    }
  }
if (!options.check) await writeFile(tablePath, `${JSON.stringify(table, undefined, 2)}\n`);

async function read(url: string): Promise<string> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(30_000) });
  if (!answer.ok) throw new Error(`${url} answered with HTTP ${answer.status}`);
  return answer.text();
}

function fail(line: string): void {
  process.stderr.write(`${line}\n`);
  process.exitCode = 1;
}
