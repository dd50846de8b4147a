/**
 * The manifests of the objects that a merge creates or changes, as the merge renders them. Redacted when they are created,
 * like the report beside which they are stored. A schema, because they are read back from Redis.
 */
import { z } from "zod";
import { ObjectRefSchema } from "./object-ref-schema.ts";

const count = z.int().nonnegative();

/** `linesLeftOut`: how many lines of it are not stored. */
const ObjectManifest = z.object({ ref: ObjectRefSchema, text: z.string(), linesLeftOut: count });

/** The manifests of one deployment, the most important ones first. `leftOut`: how many more objects there are. */
const DeploymentManifests = z.object({
  /** `namespace/name` */
  deployment: z.string(),
  objects: z.array(ObjectManifest),
  leftOut: count,
});

/** The manifests of one pull request. */
export const ReportManifests = z.object({
  /** That of the report that they belong to, in epoch milliseconds. */
  startedAt: z.number(),
  deployments: z.array(DeploymentManifests),
});

export type ObjectManifest = z.infer<typeof ObjectManifest>;
export type DeploymentManifests = z.infer<typeof DeploymentManifests>;
export type ReportManifests = z.infer<typeof ReportManifests>;

/**
 * Keeps the first manifests of each deployment until all texts together have so many characters; equal texts count once. What
 * is left out is counted.
 */
export function fitManifests({ startedAt, deployments }: ReportManifests, most: number): ReportManifests {
  const texts = new Set<string>();
  let length = 0;
  const kept = deployments.map((one) => ({ ...one, objects: [] as ObjectManifest[] }));
  const longest = Math.max(0, ...deployments.map(({ objects }) => objects.length));
  // In turns, so that no deployment loses everything in favor of another.
  for (let at = 0; at < longest; at++) {
    for (const [index, { objects }] of deployments.entries()) {
      const object = objects[at];
      const into = kept[index];
      if (object === undefined || into === undefined) continue;
      const more = texts.has(object.text) ? 0 : object.text.length;
      if (length + more > most) {
        into.leftOut++;
        continue;
      }
      length += more;
      texts.add(object.text);
      into.objects.push(object);
    }
  }
  return { startedAt, deployments: kept };
}
