/** Finds programs the way a shell does. */
import { access, constants, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** Returns the path of the executable file: `program` itself if it contains a slash, else the first one on the search path. */
export async function findProgram(program: string, searchPath: string): Promise<string | undefined> {
  const folders = program.includes("/") ? [""] : searchPath.split(delimiter).filter((folder) => folder !== "");
  for (const folder of folders) {
    const path = join(folder, program);
    if ((await isFile(path)) && (await isExecutable(path))) return path;
  }
  return undefined;
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (info) => info.isFile(),
    () => false,
  );
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
