import { deepLeftovers } from '../../server/lifecycle/leftovers.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

deepLeftovers(5000, scratchFolder);
