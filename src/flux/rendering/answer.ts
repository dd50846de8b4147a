/** The answer of `towline-flux`. */
import { z } from "zod";
import { FluxRenderError } from "../../errors.ts";
import { parseJson } from "../../kit/json.ts";
import type { FluxRendered, RenderedRelease } from "../../ports.ts";

const FilesOf = z.array(z.string());
const ObjectSchema = z.record(z.string(), z.unknown());
const Chart = z.object({ name: z.string(), version: z.string() });

const Kustomizations = z.array(
  z.union([z.object({ error: z.string() }), z.object({ objects: z.array(ObjectSchema), files: FilesOf })]),
);

const Releases = z.array(
  z.union([
    z.object({
      error: z.string(),
      isUnsupported: z.boolean().default(false),
      files: FilesOf.default([]),
      chart: Chart.optional(),
    }),
    z.object({
      objects: z.array(ObjectSchema),
      hooks: z.array(z.object({ object: ObjectSchema, events: z.array(z.string()) })),
      crds: z.array(ObjectSchema),
      files: FilesOf,
      chart: Chart,
    }),
  ]),
);

interface Expected {
  readonly count: number;
  readonly outputBytes: number;
}

/** Throws FluxRenderError if it is not the answer to this many Kustomizations. */
export function parseAnswer(text: string, expected: Expected): readonly FluxRendered[] {
  return parse(Kustomizations, text, { ...expected, what: "Kustomizations" });
}

/** Throws FluxRenderError if it is not the answer to this many HelmReleases. */
export function parseReleases(text: string, expected: Expected): readonly RenderedRelease[] {
  return parse(Releases, text, { ...expected, what: "HelmReleases" });
}

function parse<T>(
  schema: z.ZodType<readonly T[]>,
  text: string,
  { count, outputBytes, what }: Expected & { readonly what: string },
): readonly T[] {
  if (Buffer.byteLength(text) >= outputBytes)
    throw new FluxRenderError(`towline-flux printed more than ${outputBytes / 1024 ** 2} MiB`);
  const answer = schema.safeParse(parseJson(text));
  if (!answer.success)
    throw new FluxRenderError("towline-flux printed something else than an answer; is it of this version?");
  if (answer.data.length !== count)
    throw new FluxRenderError(`towline-flux answered for ${answer.data.length} ${what} instead of ${count}`);
  return answer.data;
}
