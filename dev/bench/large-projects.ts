/** Projects with large results: a Secret of many lines, ConfigMaps of nearly a megabyte, and many small objects. */
import { createHash } from "node:crypto";
import type { FileChanges } from "../parts/work-copy.ts";

const name = "{{ args.namespace }}";
const lengths = { secretLine: 31, mapLine: 39 };
const counts = { secretLines: 60_000, maps: 10, mapLines: 22_500, small: 500 };

export const largeProjects = ["secret", "maps", "many"] as const;

export type LargeProject = (typeof largeProjects)[number];

/**
 * The files of each project in a folder of its own; `release` changes every object, and every hundredth line of the
 * large ConfigMaps.
 */
export function largeFiles(release: string, wanted: readonly LargeProject[] = largeProjects): FileChanges {
  const of = (folder: LargeProject, files: FileChanges) =>
    Object.entries({
      ".kluctl.yaml": `discriminator: "${name}-${folder}"\nargs: [{ name: namespace }]\n`,
      "deployment.yaml": "deployments: [{ path: app }]\n",
      ...files,
    }).flatMap(([file, content]) => (wanted.includes(folder) ? [[`${folder}/${file}`, content]] : []));
  const maps = Array.from({ length: counts.maps }, (_, i) => [`app/map-${i}.yaml`, largeMap(`map-${i}`, release)]);
  const many = Array.from({ length: counts.small }, (_, i) =>
    object("ConfigMap", `small-${i}`, `data: { release: "${release}", text: ${line(i, lengths.mapLine)} }\n`),
  );
  return Object.fromEntries([
    ...of("secret", { "app/secret.yaml": largeSecret(release) }),
    ...of("maps", Object.fromEntries(maps) as FileChanges),
    ...of("many", { "app/many.yaml": many.join("---\n") }),
  ]) as FileChanges;
}

/** Too large for the API server, which rejects it; kluctl renders it all the same. */
function largeSecret(release: string): string {
  const lines = Array.from({ length: counts.secretLines }, (_, i) => line(`${release}${i}`, lengths.secretLine));
  return object("Secret", "large", `stringData:\n  lines: |\n${block(lines)}`);
}

function largeMap(map: string, release: string): string {
  const lines = Array.from({ length: counts.mapLines }, (_, i) =>
    line(`${map}${i}${i % 100 === 0 ? release : ""}`, lengths.mapLine),
  );
  return object("ConfigMap", map, `data:\n  lines: |\n${block(lines)}`);
}

function object(kind: string, called: string, content: string): string {
  return `apiVersion: v1\nkind: ${kind}\nmetadata: { name: ${called}, namespace: "${name}" }\n${content}`;
}

function block(lines: readonly string[]): string {
  return `${lines.map((text) => `    ${text}`).join("\n")}\n`;
}

/** Returns the same text for the same seed, and different text for any other. */
function line(seed: string | number, length: number): string {
  return createHash("sha256").update(String(seed)).digest("hex").slice(0, length);
}
