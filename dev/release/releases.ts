/** The programs that their projects publish ready-made, for the platforms and with the checksums of `table.json`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { packageRoot } from "../package-root.ts";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const releaseTable = z.record(
  z.string(),
  z.strictObject({
    version: z.string(),
    /** Where the project publishes its checksums; `{url}` is the address of the file itself. */
    checksums: z.string(),
    /** By Node.js's names of system and processor. */
    platforms: z.record(
      z.string(),
      z.strictObject({
        url: z.url(),
        /** The program's path in the archive; the file is the program if absent. */
        member: z.string().optional(),
        /** Filled in by `npm run pin:releases`; without it the program is built. */
        sha256: sha256.optional(),
      }),
    ),
  }),
);

export type ReleaseTable = z.infer<typeof releaseTable>;

export interface Release {
  readonly version: string;
  readonly url: string;
  readonly member?: string | undefined;
  readonly sha256: string;
}

export const tablePath = join(packageRoot, "dev/release/table.json");

/** Throws if the table is invalid. */
export function readTable(): ReleaseTable {
  return releaseTable.parse(JSON.parse(readFileSync(tablePath, "utf8")));
}

/** Undefined if there is none for the platform, or none whose checksum is known. */
export function findRelease(
  table: ReleaseTable,
  name: string,
  platform = `${process.platform}-${process.arch}`,
): Release | undefined {
  const tool = table[name];
  const file = tool?.platforms[platform];
  return tool && file?.sha256 ? { version: tool.version, ...file, sha256: file.sha256 } : undefined;
}

/**
 * Returns the checksum of a file from what its project publishes: a list with a line for each file, a file with nothing
 * but the checksum, or GitHub's description of a release.
 */
export function findChecksum(published: string, file: string): string | undefined {
  if (published.trimStart().startsWith("{")) {
    const release = z.object({ assets: z.array(z.object({ name: z.string(), digest: z.string().nullish() })) });
    const asset = release.parse(JSON.parse(published)).assets.find(({ name }) => name === file);
    return valid(asset?.digest?.replace(/^sha256:/, ""));
  }
  const lines = published.split("\n").map((line) => line.trim().split(/\s+\*?/));
  const line = lines.find(([, name]) => name?.split("/").at(-1) === file);
  const lone = lines.filter(([hash]) => hash !== "");
  return valid(line?.[0] ?? (lone.length === 1 && lone[0]?.length === 1 ? lone[0][0] : undefined));
}

function valid(hash: string | undefined): string | undefined {
  return sha256.safeParse(hash).success ? hash : undefined;
}
