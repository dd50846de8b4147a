/**
 * Builds the pause image, which holds a pod's network: one small program that does nothing. It is not pulled from a
 * registry.
 */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { writeImageArchive } from "./image-archive.ts";

export const pauseImage = "towline.invalid/pause:1";

const run = promisify(execFile);

const program = `
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
static void reap(int signal) { while (waitpid(-1, NULL, WNOHANG) > 0); }
int main(void) {
  signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap);
  for (;;) pause();
}
`;

/** Path of the archive. */
export async function archiveOfPause(dir: string): Promise<string> {
  const root = join(dir, "pause");
  await mkdir(root);
  await writeFile(join(dir, "pause.c"), program);
  await run("gcc", ["-static", "-Os", "-s", "-o", join(root, "pause"), join(dir, "pause.c")]);
  const archive = join(dir, "pause.tar");
  await writeImageArchive(archive, { name: pauseImage, root, config: { Entrypoint: ["/pause"], User: "65535:65535" } });
  return archive;
}
