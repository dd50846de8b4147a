/** The logger, and what it never prints. */
import { pino } from "pino";

export type Logger = pino.Logger;
