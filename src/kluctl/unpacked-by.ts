/**
 * Remembers in the cache which kluctl has unpacked its Python there. Unpacking and compiling it takes seconds, and even to
 * find that nothing is missing takes four cold interpreters: the next server with the same cache need not do it again.
 */
import { readFile, writeFile } from "node:fs/promises";
import type { Logger } from "../log.ts";
import type { Binary } from "./version.ts";

export interface UnpackedBy {
  /** Whether it was this version. A wrong answer costs time and nothing else: kluctl unpacks what it does not find. */
  is(binary: Binary): Promise<boolean>;
  /** Call once its Python has been used. Never throws. */
  remember(binary: Binary): Promise<void>;
}

export function createUnpackedBy(file: string, log: Logger): UnpackedBy {
  const read = () => readFile(file, "utf8").catch(() => "");
  return {
    is: async ({ version }) => (await read()) === version,
    async remember({ version }) {
      try {
        if ((await read()) !== version) await writeFile(file, version);
      } catch (error) {
        log.debug({ error: (error as Error).message }, "the next server unpacks kluctl's Python again");
      }
    },
  };
}
