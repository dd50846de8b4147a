/** Which kluctl is run, for what depends on it besides the work itself. */
import type { Kluctl } from "../ports.ts";

/** Nothing if there is no kluctl that could be run: then that is the error to be told. */
export async function findVersion({ version }: Pick<Kluctl, "version">): Promise<string | undefined> {
  return version().catch(() => undefined);
}
