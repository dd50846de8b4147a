/** The status of a project that could not be prepared. */
import type { Kluctl } from "../../ports.ts";
import { redactText } from "../../redact/redact-text.ts";
import { prepareError } from "./conditions.ts";
import type { Failure } from "../failures.ts";

export async function describePrepareError(
  { message, inKluctlsWords }: Pick<Failure, "message" | "inKluctlsWords">,
  kluctl: Pick<Kluctl, "version">,
  secrets: readonly string[] = [],
): Promise<ReturnType<typeof prepareError>> {
  // If no kluctl can be run, that is the error to report.
  const version = await kluctl.version().catch(() => undefined);
  const words = inKluctlsWords && (await redactText(inKluctlsWords, secrets));
  return prepareError(await redactText(message, secrets), words, version);
}
