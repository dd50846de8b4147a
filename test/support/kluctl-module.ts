/** kluctl's own sources, to compare ours with them. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { useTempDir } from "./world.ts";

/** Returns their directory in Go's module cache; downloads them if they are missing. */
export async function useKluctlModule(version: string): Promise<string> {
  const module = `github.com/kluctl/kluctl/v2@v${version}`;
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", module], { cwd: await useTempDir() });
  const { Dir } = JSON.parse(stdout) as { Dir: string };
  return Dir;
}
