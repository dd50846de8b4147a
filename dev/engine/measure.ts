/** Measures the size of each layer of an image, unpacked and as it is pulled, and how fast kluctl starts from it. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { megabytes, print, startKluctl } from "../image/figures.ts";
import type { Architecture } from "../image/release.ts";
import type { Engine } from "./daemon.ts";

const run = promisify(execFile);
const examples = join(import.meta.dirname, "../../examples");

interface Saved {
  readonly Layers: readonly string[];
}

export async function measure(engine: Engine, image: string, architecture: Architecture): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "towline-layers-"));
  try {
    await run("bash", ["-o", "pipefail", "-c", 'docker save "$0" | tar -x -C "$1"', image, dir], { env: engine.env });
    const [saved] = JSON.parse(await readFile(join(dir, "manifest.json"), "utf8")) as Saved[];
    const history = await engine.docker("history", "--no-trunc", "--format", "{{.Size}}\t{{.CreatedBy}}", image);
    // The newest instruction comes first; one that made no layer has no size, except for an empty directory.
    const made = history.trim().split("\n").toReversed();
    const instructions = made
      .map((line) => line.split("\t"))
      .filter(([, by]) => /^(?:RUN|COPY|WORKDIR|$)/.test(by ?? ""));
    const rows = [["layer", "tar, MB", "gzip, MB"]];
    for (const [index, layer] of (saved?.Layers ?? []).entries()) {
      const pack = 'gzip -6 < "$0" | wc -c; wc -c < "$0"';
      const { stdout } = await run("bash", ["-c", pack, join(dir, layer)]);
      const [packed = 0, bytes = 0] = stdout.trim().split("\n").map(Number);
      const by = instructions[index]?.[1] || "the base";
      rows.push([by.replaceAll(/\s+/g, " ").slice(0, 70), megabytes(bytes), megabytes(packed)]);
    }
    print(rows);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  const locked = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"];
  const lent = ["--volume", `${examples}:/lent/examples:ro`, "--entrypoint", "bash"];
  process.stdout.write(
    await engine.docker(
      "run",
      "--rm",
      "--platform",
      `linux/${architecture}`,
      ...locked,
      ...lent,
      image,
      "-c",
      startKluctl,
    ),
  );
}
