/** An ObjectRef that is read back from JSON. */
import { z } from "zod";

export const ObjectRefSchema = z.object({
  group: z.string().optional(),
  version: z.string().optional(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
});
