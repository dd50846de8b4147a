/** The real kluctl, run by a test beside the server: as people run it, with a home of its own. */
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
    TMPDIR: join(kluctlCache, "tmp"), // where the server's own kluctl has unpacked its Python already
    KLUCTL_BASE_TMP_DIR: join(dir, "kluctl"),
  };
}
