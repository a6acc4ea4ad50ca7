import { matrix } from './matrix.ts';

matrix({ executor: 'container', storage: 'file' });
