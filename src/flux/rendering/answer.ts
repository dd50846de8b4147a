/** The answer of `towline-flux`. */
import { z } from "zod";
import { FluxRenderError } from "../../errors.ts";
import { parseJson } from "../../kit/json.ts";
import type { FluxRendered } from "../../ports.ts";

const Answer = z.array(
  z.union([
    z.object({ error: z.string() }),
    z.object({ objects: z.array(z.record(z.string(), z.unknown())), files: z.array(z.string()) }),
  ]),
);

/** Throws FluxRenderError if it is not the answer to this many Kustomizations. */
export function parseAnswer(
  text: string,
  expected: number,
  { outputBytes }: { readonly outputBytes: number },
): readonly FluxRendered[] {
  if (Buffer.byteLength(text) >= outputBytes)
    throw new FluxRenderError(`towline-flux printed more than ${outputBytes / 1024 ** 2} MiB`);
  const answer = Answer.safeParse(parseJson(text));
  if (!answer.success)
    throw new FluxRenderError("towline-flux printed something else than an answer; is it of this version?");
  if (answer.data.length !== expected)
    throw new FluxRenderError(`towline-flux answered for ${answer.data.length} Kustomizations instead of ${expected}`);
  return answer.data;
}
