/** The programs that the demo uses, in the order in which it needs them. */
import { controlPlaneTools } from "../parts/control-plane.ts";

export const demoTools = ["kluctl", ...controlPlaneTools, "redis-server", "gitea", "kubectl"] as const;
