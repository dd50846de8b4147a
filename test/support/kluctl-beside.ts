/** The real kluctl, run by a test independently of the server: as users run it, with a home directory of its own. */
import { join } from "node:path";
import type { TestWorld } from "./world.ts";

export function kluctlEnvironment({
  cluster,
  dir,
  kluctlCache,
}: Pick<TestWorld, "cluster" | "dir" | "kluctlCache">): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    HOME: dir,
    KUBECONFIG: cluster.kubeconfig,
    TMPDIR: join(kluctlCache, "tmp"), // the server's kluctl has already unpacked its Python here
    KLUCTL_BASE_TMP_DIR: join(dir, "kluctl"),
  };
}
