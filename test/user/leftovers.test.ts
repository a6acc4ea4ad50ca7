import { deepLeftovers } from '../support/deep-leftovers.ts';
import { scratchFolder } from '../support/session.ts';

deepLeftovers(5000, scratchFolder);
