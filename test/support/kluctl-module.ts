/** kluctl's own sources, to compare ours with what they say. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { useTempDir } from "./world.ts";

/** Where they are, in Go's cache of modules; they are downloaded if they are not there. */
export async function useKluctlModule(version: string): Promise<string> {
  const module = `github.com/kluctl/kluctl/v2@v${version}`;
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", module], { cwd: await useTempDir() });
  const { Dir } = JSON.parse(stdout) as { Dir: string };
  return Dir;
}
