// Exits with 0 if node_modules matches package-lock.json. npm itself records what it has installed, so no state is
// needed here, and an installation by hand counts as well. Runs before there are dependencies.
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface LockedPackage {
  /** Present only for our own package. */
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly version?: string;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
}

function packagesOf(path: string): Record<string, LockedPackage> {
  const lock = JSON.parse(readFileSync(join(import.meta.dirname, "..", path), "utf8")) as {
    packages: Record<string, LockedPackage>;
  };
  return lock.packages;
}

function isInstalled(): boolean {
  const installed = packagesOf("node_modules/.package-lock.json");
  const locked = packagesOf("package-lock.json");
  // Our own optional dependencies are for all systems; npm skips them under a Node that is too old for them.
  const ours = Object.keys(locked[""]?.optionalDependencies ?? {}).map((name) => `node_modules/${name}`);
  return Object.entries(locked).every(([path, { version, optional, devOptional }]) => {
    const there = installed[path];
    if (path === "") return true;
    const forAnother = Boolean(optional || devOptional) && !ours.includes(path);
    return there ? there.version === version : forAnother;
  });
}

try {
  process.exitCode = isInstalled() ? 0 : 1;
} catch {
  process.exitCode = 1; // nothing is installed yet
}
