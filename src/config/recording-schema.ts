/** The schema of `recording`: deliveries that are kept for `towline replay`. A part of config/schema.ts. */
import { z } from "zod";
import { integer, size, text } from "./schema-parts.ts";
import { Secret } from "./secret.ts";

/** What `openssl rand -base64 24` prints has 32 characters, and cannot be guessed. */
const shortestRecordingKey = 32;

const recordingKey = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(shortestRecordingKey, `is too short: a key needs ${shortestRecordingKey} random characters or more`)
  .transform((value) => new Secret(value));

export const recordingSchema = z
  .strictObject({
    enabled: z.boolean({ error: "must be true or false" }).prefault(false).meta({
      description:
        "Records accepted deliveries, encrypted and without secrets, so that `towline replay` can try them against a changed configuration: see docs/webhooks.md.",
    }),
    days: integer(1, 90)
      .prefault(7)
      .meta({ description: "Number of days after which a recorded delivery is deleted." }),
    maxDeliveries: integer(1, 100_000).prefault(10_000).meta({
      description: "Maximum number of recorded deliveries. If there are more, the oldest are deleted.",
    }),
    maxSize: size("64KiB", "1GiB").prefault("32MiB").meta({
      description: "Maximum size of all recorded deliveries in Redis. If they take more, the oldest are deleted.",
    }),
    keys: z
      .array(recordingKey, { error: "must be a list" })
      .prefault([])
      .meta({
        secret: true,
        variable: "TOWLINE_RECORDING_KEY",
        description: `Keys that encrypt recorded deliveries, ${shortestRecordingKey} random characters or more each. The first one encrypts, all of them decrypt. To rotate: add the new key before the old one, and remove the old one after \`recording.days\`. In the variable, separate keys with commas or line breaks.`,
      }),
    keyFiles: z.array(text, { error: "must be a list" }).prefault([]).meta({
      variable: "TOWLINE_RECORDING_KEY_FILE",
      description: "Files with keys for recorded deliveries, one per line.",
    }),
  })
  .superRefine(({ enabled, keys, keyFiles }, ctx) => {
    // A file that cannot be read is a problem of its own.
    if (!enabled || keys.length + keyFiles.length > 0) return;
    ctx.addIssue({
      code: "custom",
      path: ["keys"],
      message: `is empty: recording needs a key; set TOWLINE_RECORDING_KEY or a file, with ${shortestRecordingKey} random characters or more`,
    });
  });
