/* One parallel region and its barriers; a single thread where the compiler has no OpenMP. */
#ifndef TC_TEAM_H
#define TC_TEAM_H

#ifdef _OPENMP
#include <omp.h>
#define TC_PRAGMA(X) _Pragma(#X)
#define TC_PARALLEL(THREADS) TC_PRAGMA(omp parallel num_threads(THREADS))
#define TC_BARRIER TC_PRAGMA(omp barrier)
#define TC_TEAM tc_spread((tc_team){tc_isa_now(), omp_get_thread_num(), omp_get_num_threads()})
#else
#define TC_PARALLEL(THREADS) for (int once_ = ((void)(THREADS), 1); once_; once_ = 0)
#define TC_BARRIER
#define TC_TEAM ((tc_team){tc_isa_now(), 0, 1})
#endif

#endif
