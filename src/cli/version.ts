/** Which build this is. */
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import type { Define } from "./commands.ts";

export interface Version {
  readonly version: string;
  /** Where the build has written it into package.json. */
  readonly commit?: string | undefined;
  readonly node: string;
}

export function readVersion(): Version {
  const path = findPackageJSON("..", import.meta.url); // package.json is not where the sources are once they are built
  const { version = "unknown", commit } = path ? (JSON.parse(readFileSync(path, "utf8")) as Partial<Version>) : {};
  return { version, ...(commit !== undefined && { commit }), node: process.version };
}

export const defineVersion: Define = (command, { out }) => {
  command.action(() => out(`${JSON.stringify(readVersion())}\n`));
};
