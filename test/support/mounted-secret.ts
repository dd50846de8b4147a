/** A directory with the structure of a Secret mounted by Kubernetes: an update changes the target of one link. */
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

export interface MountedSecret {
  readonly path: (key: string) => string;
  /** Replaces all keys at once, like Kubernetes. */
  put(data: Readonly<Record<string, string>>): Promise<void>;
}

export async function mountSecret(dir: string, data: Readonly<Record<string, string>>): Promise<MountedSecret> {
  let version = 0;
  async function put(next: Readonly<Record<string, string>>): Promise<void> {
    const name = `..version-${++version}`;
    await mkdir(join(dir, name), { recursive: true });
    for (const [key, value] of Object.entries(next)) await writeFile(join(dir, name, key), value);
    await symlink(name, join(dir, "..data_tmp"));
    await rename(join(dir, "..data_tmp"), join(dir, "..data"));
    await rm(join(dir, `..version-${version - 1}`), { recursive: true, force: true });
  }
  await put(data);
  for (const key of Object.keys(data)) await symlink(join("..data", key), join(dir, key));
  return { path: (key) => join(dir, key), put };
}
